//! `sotto recipe tokens`: requests the token keys of a recipe from an issuer.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};
use sotto_crypto::note::{NoteKey, verify_endorsement};
use sotto_protocol::Moment;
use sotto_protocol::issuer::author::TokenKeys;
use sotto_protocol::recipe::recipe_vdaf;
use sotto_protocol::trust::Trust;
use sotto_wire::recipe::{TokenKeyRequest, TokensDraft};
use sotto_wire::{RecipeDraft, Role};

use crate::connection::ConnectionArgs;
use crate::output::{Outcome, Output, WithHint};
use crate::recipe_file::{self, Form};
use crate::time_text::{parse_seconds, show_moment};
use crate::{private_file, signer_file, token_keys, trust_file};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  sotto recipe tokens commute.toml --signer author.key --issuer https://issuer.example\n\n\
    The issuer makes a key pair for each aggregator, keeps the private halves and endorses the public ones, which are added to the \
    file. Request the keys when the recipe is final, then publish it: the keys are for this \
    recipe only, and expire soon. The same recipe \
    gets the same keys again."
)]
pub(super) struct TokensArgs {
    /// The recipe in TOML. The keys are appended to the file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The author's key file (`sotto keys signer`). The issuer must list the key.
    #[arg(long, value_name = "FILE")]
    signer: PathBuf,
    /// The URL of the issuer.
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// How long the keys stay valid after the recipe closes, for late reports.
    #[arg(long, value_name = "TIME", default_value = "7d")]
    grace: String,
    /// Check the endorsements with the issuer's key in this trust file.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl TokensArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let signer = signer_file::read(&self.signer)?;
        let text = private_file::read(&self.file)?;
        let Form::Draft(draft) = recipe_file::read(&self.file)? else {
            bail!(
                "{} is final: token keys can only be added to a recipe in TOML",
                self.file.display()
            );
        };
        let request = self.request(&draft, &signer)?;
        let spinner = output.spinner("waiting for the issuer to make keys");
        let keys = self.connection.transport(1).and_then(|transport| {
            token_keys::ask(transport.as_ref(), &self.issuer, &request, &signer)
        });
        spinner.finish_and_clear();
        let draft = with_keys(*draft, keys?)?;
        check(&draft, &signer, trust.as_ref())?;
        let text = appended(&text, &draft)?;
        recipe_file::write(&self.file, text.as_bytes(), true)?;
        let issuer = draft.tokens.issuer().map(ToString::to_string);
        if output.json() {
            output.value(&json!({
                "file": self.file,
                "issuer": issuer,
                "expires": request.expires,
                "endorsements_checked": trust.is_some(),
            }))?;
            return Ok(Outcome::Yes);
        }
        let issuer = issuer.unwrap_or_default();
        let (until, file) = (show_moment(Moment(request.expires)), self.file.display());
        if trust.is_some() {
            output.remark(format!(
                "{issuer} has made token keys, good until {until}; they are in {file}"
            ));
        } else {
            // The server at this URL may not be the issuer that the recipe names.
            output.remark(format!(
                "the token keys come from {}, good until {until}; they are in {file}",
                self.issuer
            ));
            output.remark(format!(
                "whether {issuer} endorses them was not checked: --trust pins the issuer's key"
            ));
        }
        output.remark(format!("next: sotto recipe publish {} ...", self.file.display()));
        Ok(Outcome::Yes)
    }

    /// The author's request. The nonce is derived from the recipe, so a repeated request gives the
    /// same keys.
    fn request(&self, draft: &RecipeDraft, signer: &NoteKey) -> Result<TokenKeyRequest> {
        let author = signer_file::public(signer);
        if draft.author.as_ref().is_some_and(|named| *named != author) {
            bail!("the recipe's author is not the signer");
        }
        let helper = match &draft.tokens {
            TokensDraft::InsecureNone => {
                return Err(anyhow!("the recipe asks for no tokens"))
                    .hint("[parties.tokens] kind = \"rate_limited\", issuer = \"...\"");
            }
            TokensDraft::RateLimited { .. } => Some(draft.parties.helper.operator.clone()),
            TokensDraft::InsecureLeaderOnly { .. } => None,
        };
        if !draft.tokens.keys_missing() {
            return Err(anyhow!("the recipe already has token keys")).hint(
                "remove [parties.tokens.leader] and [parties.tokens.helper] to get new ones",
            );
        }
        let recipe = recipe_file::with_stand_ins(draft.clone())?;
        let nonce = URL_SAFE_NO_PAD.encode(Sha256::digest(recipe.to_json()));
        let expires = draft.when.closes.saturating_add(parse_seconds(&self.grace)?);
        Ok(TokenKeyRequest {
            author,
            leader: draft.parties.leader.operator.clone(),
            helper,
            expires,
            nonce,
        })
    }
}

/// The draft with these keys.
fn with_keys(mut draft: RecipeDraft, keys: TokenKeys) -> Result<RecipeDraft> {
    match &mut draft.tokens {
        TokensDraft::RateLimited { leader, helper, .. } => {
            ensure!(keys.helper.is_some(), "the issuer gave no key for the helper");
            *leader = Some(keys.leader);
            *helper = keys.helper;
        }
        TokensDraft::InsecureLeaderOnly { leader, .. } => *leader = Some(keys.leader),
        TokensDraft::InsecureNone => {}
    }
    Ok(draft)
}

/// Checks that the draft becomes a recipe whose keys the pinned issuer endorsed.
fn check(draft: &RecipeDraft, signer: &NoteKey, trust: Option<&Trust>) -> Result<()> {
    let vdaf = recipe_vdaf(&draft.query, &draft.randomizer)?;
    let recipe = draft.clone().complete(signer_file::public(signer), vdaf)?;
    let Some((trust, issuer)) = trust.zip(recipe.parties.tokens.issuer()) else { return Ok(()) };
    let pinned = trust.operator(issuer);
    let pinned = pinned.ok_or_else(|| anyhow!("the issuer {issuer} is not pinned"));
    let pinned = pinned.hint("list its key under [[operators]] in the trust file")?;
    for role in [Role::Leader, Role::Helper] {
        if recipe.parties.tokens.key(role).is_some() {
            verify_endorsement(&recipe, role, pinned).with_context(|| {
                format!("{issuer} has not endorsed the key: is it the issuer at this URL?")
            })?;
        }
    }
    Ok(())
}

/// The file with the keys at its end. The existing text is unchanged.
fn appended(text: &str, draft: &RecipeDraft) -> Result<String> {
    let mut out = text.trim_end().to_owned();
    for (role, name) in [(Role::Leader, "leader"), (Role::Helper, "helper")] {
        let Some(Some(key)) = draft.tokens.key(role) else { continue };
        out += &format!(
            "\n\n[parties.tokens.{name}]\npublic_key = \"{}\"\nexpires = {}\nendorsement = \"{}\"",
            key.public_key,
            show_moment(Moment(key.expires)),
            key.endorsement
        );
    }
    out.push('\n');
    match RecipeDraft::from_toml(&out) {
        Ok(read) if read == *draft => Ok(out),
        // The tables cannot be appended, for instance because `tokens` is an inline table.
        _ => Ok(draft.to_toml()),
    }
}
