//! `state/pending`: the last checkpoint that the log signed. The log never signs another one of the
//! same or a smaller size.

use sotto_wire::{Checkpoint, FormatError, Note};

use super::table::Fingerprint;

const HEADER: &str = "sotto.log-state/v1";

/// The last signed checkpoint and what is derived from the entries under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// The size before the append that produced it.
    pub(super) from: u64,
    /// The fingerprint of the rows that find entries by id.
    pub(super) ids: Fingerprint,
    /// The fingerprint of the rows that find the last entry of a subject.
    pub(super) names: Fingerprint,
    /// Signed by the log alone.
    pub(super) note: Note,
    /// What the note says.
    pub(super) checkpoint: Checkpoint,
}

impl Pending {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let head = format!(
            "{HEADER}\nfrom {}\nids {}\nnames {}\n\n",
            self.from,
            hex(&self.ids),
            hex(&self.names)
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.note.to_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let wrong = || FormatError::new("the log's state is damaged");
        let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
        let (head, note) = text.split_once("\n\n").ok_or_else(wrong)?;
        let mut lines = head.lines();
        if lines.next() != Some(HEADER) {
            return Err(wrong());
        }
        let mut field = |name: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(name));
            line.and_then(|line| line.strip_prefix(' ')).ok_or_else(wrong)
        };
        let from = field("from")?.parse().map_err(|_| wrong())?;
        let ids = unhex(field("ids")?).ok_or_else(wrong)?;
        let names = unhex(field("names")?).ok_or_else(wrong)?;
        let note = Note::parse(note.as_bytes())?;
        let checkpoint = Checkpoint::parse(note.text())?;
        Ok(Self { from, ids, names, note, checkpoint })
    }
}

fn hex(fingerprint: &Fingerprint) -> String {
    fingerprint.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Fingerprint> {
    // An entry id has the same text form.
    text.parse::<sotto_wire::EntryId>().ok().map(|id| Fingerprint(*id.as_bytes()))
}
