//! Opening and judging one aggregator's share of a report. DAP, sections "Input Share Decryption"
//! and "Input Share Validation".
//!
//! The same rules apply to both aggregators. The VDAF decides whether the measurement is valid. The
//! store knows whether the report was seen before, and so whether its token is spent: the token's
//! nonce gives the report's id.

use sotto_wire::labels::input_share_info;
use sotto_wire::token::{TOKEN_EXTENSION, TOKEN_LEN};
use sotto_wire::{
    Decode, Encode, Extensions, HpkeCiphertext, PlaintextInputShare, PublicShare, ReportMetadata,
    Role,
};
use zeroize::Zeroizing;

use crate::token::VerifyToken;
use crate::{AggregatorTask, HpkeKeyring, Moment, Rejection};

/// The public report extensions that an aggregator understands: none. Both aggregators see them.
const KNOWN_PUBLIC: &[u16] = &[];

/// The private extensions in a task with tokens. Other tasks have none.
const KNOWN_PRIVATE: &[u16] = &[TOKEN_EXTENSION];

/// The most bytes of private extensions in a share: one token, with its type and length.
const MAX_PRIVATE_EXTENSIONS_LEN: usize = 2 + 2 + TOKEN_LEN;

/// What sealing adds to an input share without private extensions: the lengths of the two fields of
/// `PlaintextInputShare` and the tag, which has 16 bytes in every AEAD of HPKE.
const SEALING_OVERHEAD_LEN: usize = 2 + 4 + 16;

/// Opens the shares of one job or request, reusing its buffers.
pub(crate) struct InputShareOpener<'a> {
    task: &'a AggregatorTask,
    keys: &'a HpkeKeyring,
    now: Moment,
    info: Vec<u8>,
    /// `InputShareAad`; the first `aad_prefix_len` bytes are the same for every report of the task.
    aad: Vec<u8>,
    aad_prefix_len: usize,
    public_share_len: usize,
    input_share_len: usize,
}

/// A share that passed every check except the VDAF's.
pub(crate) struct InputShare {
    plaintext: Zeroizing<Vec<u8>>,
    start: usize,
}

impl InputShare {
    /// The VDAF's input share.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.plaintext.get(self.start..).unwrap_or_default()
    }
}

impl<'a> InputShareOpener<'a> {
    /// An opener for the shares of `role`, with `now` as the clock.
    pub(crate) fn new(
        task: &'a AggregatorTask,
        role: Role,
        keys: &'a HpkeKeyring,
        now: Moment,
    ) -> Self {
        let sizes = task.task.vdaf().sizes();
        let input_share_len =
            if role == Role::Leader { sizes.leader_share } else { sizes.helper_share };
        let mut aad = Vec::with_capacity(1024);
        task.task.id().encode(&mut aad);
        aad.extend_from_slice(task.task.encoded_configuration());
        let aad_prefix_len = aad.len();
        Self {
            task,
            keys,
            now,
            info: input_share_info(role),
            aad,
            aad_prefix_len,
            public_share_len: sizes.public_share,
            input_share_len,
        }
    }

    /// Opens one share and makes every check of the two sections, in their order, then checks the
    /// token, which is the most expensive check before the VDAF's. It comes last: a share that is
    /// rejected here showed no valid token, and the leader relies on that when it releases report
    /// ids.
    pub(crate) fn open(
        &mut self,
        metadata: &ReportMetadata<'_>,
        public_share: &PublicShare<'_>,
        ciphertext: &HpkeCiphertext<'_>,
    ) -> Result<InputShare, Rejection> {
        let opener = self.keys.opener(ciphertext.config_id()).ok_or(Rejection::HpkeDecryptError)?;
        self.aad.truncate(self.aad_prefix_len);
        metadata.encode(&mut self.aad);
        public_share.encode(&mut self.aad);
        let plaintext = opener
            .open(&self.info, &self.aad, ciphertext)
            .map_err(|_| Rejection::HpkeDecryptError)?;

        // The share decodes and has the VDAF's sizes: other sizes cannot decode there.
        let decoded =
            PlaintextInputShare::from_bytes(&plaintext).map_err(|_| Rejection::InvalidMessage)?;
        if decoded.payload.len() != self.input_share_len
            || public_share.len() != self.public_share_len
        {
            return Err(Rejection::InvalidMessage);
        }
        let task = &self.task.task;
        task.check_clock(metadata.time, self.now)?;
        task.check_interval(metadata.time)?;
        let private = &decoded.private_extensions;
        let known = if self.task.tokens.is_some() { KNOWN_PRIVATE } else { &[] };
        check_extensions(&metadata.public_extensions, KNOWN_PUBLIC, private, known)?;
        if let Some(tokens) = &self.task.tokens {
            check_token(&**tokens, private, metadata, self.now)?;
        }
        // The payload is the last field.
        let start = plaintext.len() - self.input_share_len;
        Ok(InputShare { plaintext, start })
    }
}

/// Checks the public extensions alone, which the leader can do before it opens a share.
pub(crate) fn check_public_extensions(public: &Extensions<'_>) -> Result<(), Rejection> {
    check_extensions(public, KNOWN_PUBLIC, &Extensions::empty(), &[])
}

/// Whether a sealed share can hold an input share of `input_share_len` bytes.
pub(crate) fn check_sealed_len(
    ciphertext: &HpkeCiphertext<'_>,
    input_share_len: usize,
) -> Result<(), Rejection> {
    let least = input_share_len + SEALING_OVERHEAD_LEN;
    if (least..=least + MAX_PRIVATE_EXTENSIONS_LEN).contains(&ciphertext.payload().len()) {
        Ok(())
    } else {
        Err(Rejection::InvalidMessage)
    }
}

/// Checks that the share holds a token that is valid for this task, this aggregator and this
/// report.
///
/// The last check ties the report id to the token: whoever counts distinct ids counts distinct
/// tokens, and a token cannot be moved to another report.
fn check_token(
    tokens: &dyn VerifyToken,
    private: &Extensions<'_>,
    metadata: &ReportMetadata<'_>,
    now: Moment,
) -> Result<(), Rejection> {
    let mut extensions = private.iter().flatten();
    let extension = extensions.find(|extension| extension.extension_type == TOKEN_EXTENSION);
    let token = extension.ok_or(Rejection::TokenMissing)?;
    if tokens.verify(&token.extension_data, now)? == metadata.report_id {
        Ok(())
    } else {
        Err(Rejection::TokenOtherReport)
    }
}

/// Checks that every extension is known in its list, that no type is in both lists, and that each
/// list is strictly increasing by type.
fn check_extensions(
    public: &Extensions<'_>,
    known_public: &[u16],
    private: &Extensions<'_>,
    known_private: &[u16],
) -> Result<(), Rejection> {
    for (list, known) in [(public, known_public), (private, known_private)] {
        for extension in list.iter() {
            let extension = extension.map_err(|_| Rejection::InvalidMessage)?;
            if !known.contains(&extension.extension_type) {
                return Err(Rejection::InvalidMessage);
            }
        }
    }
    let mut types = public.iter().flatten().map(|extension| extension.extension_type);
    if types.any(|public| private.iter().flatten().any(|other| other.extension_type == public)) {
        return Err(Rejection::InvalidMessage);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Extensions of these types, in this order, whether legal or not.
    fn list(types: &[u16]) -> Extensions<'static> {
        let len = u16::try_from(types.len() * 4).unwrap();
        let mut bytes = len.to_be_bytes().to_vec();
        for extension_type in types {
            bytes.extend_from_slice(&extension_type.to_be_bytes());
            bytes.extend_from_slice(&[0, 0]);
        }
        Extensions::from_bytes(&bytes).unwrap().into_owned()
    }

    #[test]
    fn extensions_are_known_distinct_and_sorted() {
        let cases: &[(&[u16], &[u16], bool)] = &[
            (&[], &[], true),
            (&[1], &[], true),
            (&[1, 3], &[2], true),
            (&[], &[1, 2, 3], true),
            (&[4], &[], false),
            (&[], &[4], false),
            (&[1, 4], &[2], false),
            (&[1, 1], &[], false),
            (&[], &[2, 2], false),
            (&[2, 1], &[], false),
            (&[], &[3, 2], false),
            (&[1, 2], &[2, 3], false),
            (&[3], &[3], false),
        ];
        for (public, private, legal) in cases {
            let known = &[1, 2, 3];
            let result = check_extensions(&list(public), known, &list(private), known);
            let expected = if *legal { Ok(()) } else { Err(Rejection::InvalidMessage) };
            assert_eq!(result, expected, "{public:?} {private:?}");
        }
    }

    #[test]
    fn a_list_that_is_cut_off_is_refused() {
        let cut = Extensions::from_bytes(&[0, 3, 0, 1, 0]).unwrap();
        let none = list(&[]);
        assert_eq!(check_extensions(&cut, &[1], &none, &[1]), Err(Rejection::InvalidMessage));
        assert_eq!(check_extensions(&none, &[1], &cut, &[1]), Err(Rejection::InvalidMessage));
    }

    #[test]
    fn an_extension_is_known_in_its_own_list_only() {
        let (one, none) = (list(&[1]), list(&[]));
        assert_eq!(check_extensions(&none, &[], &one, &[1]), Ok(()));
        assert_eq!(check_extensions(&one, &[], &none, &[1]), Err(Rejection::InvalidMessage));
        assert_eq!(check_extensions(&none, &[1], &one, &[]), Err(Rejection::InvalidMessage));
    }

    #[test]
    fn a_sealed_share_has_room_for_private_extensions_only() {
        let sealed = |len: usize| {
            HpkeCiphertext::new(sotto_wire::HpkeConfigId::new(1), vec![0; 32], vec![0; len])
                .unwrap()
        };
        for (len, fits) in [(121, false), (122, true), (122 + 358, true), (123 + 358, false)] {
            assert_eq!(check_sealed_len(&sealed(len), 100).is_ok(), fits, "{len}");
        }
    }
}
