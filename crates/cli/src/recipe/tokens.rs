//! `sotto recipe tokens`: requests the token keys of a recipe from its issuers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};
use sotto_crypto::note::{NoteKey, verify_endorsement};
use sotto_protocol::Moment;
use sotto_protocol::trust::Trust;
use sotto_wire::recipe::{EndorsedKey, KeyDraft, TokenKeyRequest, TokensDraft};
use sotto_wire::{KeyName, RecipeDraft, Role};

use crate::connection::ConnectionArgs;
use crate::output::{Outcome, Output, WithHint};
use crate::recipe_file::{self, Form};
use crate::time_text::{parse_seconds, show_moment};
use crate::vocabulary::Time;
use crate::{signer_file, token_keys, trust_file};

const ROLES: [Role; 2] = [Role::Leader, Role::Helper];

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  sotto recipe tokens commute.toml --signer author.key \\\n    \
    --leader-issuer https://issuer-a.example \\\n    \
    --helper-issuer https://issuer-b.example\n\n\
    Each issuer makes the key pair for its aggregator, keeps the private half and endorses the public one, which is added to the \
    file. Request the keys when the recipe is final, then publish it: the keys are for this \
    recipe only, and expire soon. The same recipe \
    gets the same keys again.")]
pub(super) struct TokensArgs {
    /// The recipe in TOML. The keys are added to the file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The author's key file (`sotto keys signer`). The issuers must list the key.
    #[arg(long, value_name = "FILE")]
    signer: PathBuf,
    /// The URL of the issuer of the leader's tokens.
    #[arg(long, value_name = "URL")]
    leader_issuer: Option<String>,
    /// The URL of the issuer of the helper's tokens.
    #[arg(long, value_name = "URL")]
    helper_issuer: Option<String>,
    /// How long the keys stay valid after the recipe closes, for late reports.
    #[arg(long, value_name = "TIME", default_value = "7d")]
    grace: String,
    /// Check the endorsements with the issuers' keys in this trust file.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// A key that is missing, and where to ask for it.
struct Wanted<'a> {
    issuer: KeyName,
    url: &'a str,
    request: TokenKeyRequest,
}

/// The keys that were added.
#[derive(Serialize)]
struct Added<'a> {
    file: &'a Path,
    issuers: Vec<String>,
    #[serde(flatten)]
    expires: Time,
    endorsements_checked: bool,
}

impl TokensArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let signer = signer_file::read(&self.signer)?;
        let Form::Draft(mut draft, text) = recipe_file::read(&self.file)? else {
            bail!(
                "{} is final: token keys can only be added to a recipe in TOML",
                self.file.display()
            );
        };
        let wanted = self.wanted(&draft, &signer)?;
        let transport = self.connection.transport(1)?;
        for Wanted { issuer, url, request } in &wanted {
            let spinner = output.spinner(format!("waiting for {issuer} to make a key"));
            let key = token_keys::ask(transport.as_ref(), url, request, &signer);
            spinner.finish_and_clear();
            let key = key?;
            if key.issuer != *issuer {
                return Err(anyhow!("{url} is the issuer {}, not {issuer}", key.issuer))
                    .hint("--leader-issuer and --helper-issuer may be swapped");
            }
            if let Some(missing) = draft.token_key_mut(request.role) {
                *missing = KeyDraft::Endorsed(key);
            }
        }
        check(&draft, &signer, trust.as_ref())?;
        let text = with_keys(&text, &draft)?;
        recipe_file::write(&self.file, text.as_bytes(), true)?;
        let expires = wanted.iter().map(|wanted| wanted.request.expires).max().unwrap_or_default();
        if output.json() {
            output.value(&Added {
                file: &self.file,
                issuers: wanted.iter().map(|wanted| wanted.issuer.to_string()).collect(),
                expires: Time::new("expires", expires),
                endorsements_checked: trust.is_some(),
            })?;
            return Ok(Outcome::Yes);
        }
        let (until, file) = (show_moment(Moment(expires)), self.file.display());
        let signer = self.signer.display();
        for Wanted { issuer, url, request } in &wanted {
            let role = request.role.as_str();
            if trust.is_some() {
                output.remark(format!("{issuer} has made the {role}'s token key"));
            } else {
                // The server at this URL may not be the issuer that the recipe names.
                output.remark(format!("the {role}'s token key comes from {url}"));
            }
        }
        output.remark(format!("the keys are in {file}, good until {until}"));
        if trust.is_none() {
            output.remark(
                "whether the issuers endorse them was not checked: --trust pins the issuers' keys",
            );
        }
        output.next(&[format!("sotto recipe publish {file} --signer {signer} --log URL")]);
        Ok(Outcome::Yes)
    }

    /// The keys that are missing, each with the author's request. The nonce is derived from the
    /// recipe, so a repeated request gives the same key.
    fn wanted(&self, draft: &RecipeDraft, signer: &NoteKey) -> Result<Vec<Wanted<'_>>> {
        let author = signer_file::public(signer);
        if draft.author.as_ref().is_some_and(|named| *named != author) {
            bail!("the recipe's author is not the signer");
        }
        let parties = recipe_file::parties(draft)?;
        if parties.tokens == TokensDraft::InsecureNone {
            return Err(anyhow!("the recipe asks for no tokens")).hint(
                "[parties.tokens] kind = \"rate_limited\", leader.issuer = \"...\", helper.issuer = \"...\"",
            );
        }
        if parties.tokens.missing_key().is_none() {
            return Err(anyhow!("the recipe already has token keys")).hint(
                "in [parties.tokens.leader] and [parties.tokens.helper], remove all but `issuer` to get new ones",
            );
        }
        let recipe = recipe_file::with_stand_ins(without_keys(draft.clone()))?;
        let nonce = URL_SAFE_NO_PAD.encode(Sha256::digest(recipe.to_json()));
        let expires = draft.when.closes.saturating_add(parse_seconds(&self.grace)?);
        let mut wanted = Vec::new();
        for role in ROLES {
            let Some(KeyDraft::Missing(issuer)) = parties.tokens.key(role) else { continue };
            let url = match role {
                Role::Helper => self.helper_issuer.as_deref(),
                _ => self.leader_issuer.as_deref(),
            };
            let url = url.ok_or_else(|| anyhow!("--{}-issuer is missing", role.as_str()));
            let url = url.hint(format!("give the URL of {issuer}"))?;
            let request = TokenKeyRequest {
                author: author.clone(),
                leader: parties.leader.operator.clone(),
                helper: parties.helper.operator.clone(),
                role,
                expires,
                nonce: nonce.clone(),
                participations: recipe.participations(),
            };
            wanted.push(Wanted { issuer: issuer.clone(), url, request });
        }
        Ok(wanted)
    }
}

/// The draft before any key was made.
fn without_keys(mut draft: RecipeDraft) -> RecipeDraft {
    for role in ROLES {
        if let Some(key) = draft.token_key_mut(role) {
            *key = KeyDraft::Missing(key.issuer().clone());
        }
    }
    draft
}

/// Checks that the draft becomes a recipe whose keys the pinned issuers endorsed.
fn check(draft: &RecipeDraft, signer: &NoteKey, trust: Option<&Trust>) -> Result<()> {
    let recipe = recipe_file::complete(draft.clone(), signer_file::public(signer))?;
    let Some(trust) = trust else { return Ok(()) };
    for role in ROLES {
        let Some(issuer) = recipe.parties.tokens.issuer(role) else { continue };
        let pinned = trust.operator(issuer);
        let pinned = pinned.ok_or_else(|| anyhow!("the issuer {issuer} is not pinned"));
        let pinned = pinned.hint("list its key under [[operators]] in the trust file")?;
        verify_endorsement(&recipe, role, pinned).with_context(|| {
            format!("{issuer} has not endorsed the key: is it the issuer at this URL?")
        })?;
    }
    Ok(())
}

/// The file with the keys, each after the line of its issuer. The other text is unchanged.
fn with_keys(text: &str, draft: &RecipeDraft) -> Result<String> {
    let mut out = String::new();
    let mut table = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            let of = |role: &Role| trimmed == format!("[parties.tokens.{}]", role.as_str());
            table = ROLES.into_iter().find(of);
        }
        let key = table.and_then(|role| draft.tokens()?.key(role)).and_then(KeyDraft::endorsed);
        match key {
            Some(key) if trimmed.starts_with("issuer") => {
                out += &format!("{line}\n{}", key_lines(key));
                table = None;
            }
            _ => out += &format!("{line}\n"),
        }
    }
    match RecipeDraft::from_toml(&out) {
        Ok(read) if read == *draft => Ok(out),
        // The keys cannot be added so, for instance because the tables are written inline.
        _ => Ok(draft.to_toml()),
    }
}

fn key_lines(key: &EndorsedKey) -> String {
    let expires = show_moment(Moment(key.expires));
    let (public_key, endorsement) = (&key.public_key, &key.endorsement);
    format!("public_key = \"{public_key}\"\nexpires = {expires}\nendorsement = \"{endorsement}\"\n")
}
