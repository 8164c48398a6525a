//! Rows that find an entry by 32 bytes: the format of `by-id/<4 hex>` files.
//!
//! A file holds the rows whose keys begin with its two bytes, sorted by key: 32 bytes of key, then
//! the entry's index as a big-endian u64. With 2^16 files, one small read from any web server finds
//! a row. The rows are derived from the entries: a reader treats them as a hint and checks the
//! entry.

use sotto_wire::EntryId;

/// The bytes of one row.
pub const ROW_LEN: usize = 40;
/// The most rows that a reader accepts in one file: far more than 2^28 entries spread over 2^16
/// files need.
pub const MAX_ROWS: usize = 1 << 14;

/// One row: a key and the index of the entry that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// What is looked up.
    pub key: [u8; 32],
    /// The entry's index in the log.
    pub index: u64,
}

/// Why a file of rows was rejected.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RowsError {
    /// The length is not a whole number of rows.
    #[error("the file ends inside a row")]
    Length,
    /// Two rows are equal or in the wrong order.
    #[error("the rows are not in increasing order")]
    Order,
    /// A row belongs in another file.
    #[error("a row belongs in another file")]
    Prefix,
}

/// The number of the file that holds `key`.
pub fn bucket(key: &[u8; 32]) -> u16 {
    u16::from_be_bytes([key[0], key[1]])
}

/// The path of the file with the id's row.
pub fn by_id_path(id: &EntryId) -> String {
    format!("by-id/{:04x}", bucket(id.as_bytes()))
}

/// Reads the rows of one file, which must be sorted and belong there.
pub fn parse(bucket_number: u16, bytes: &[u8]) -> Result<Vec<Row>, RowsError> {
    let (chunks, rest) = bytes.as_chunks::<ROW_LEN>();
    if !rest.is_empty() {
        return Err(RowsError::Length);
    }
    let mut rows: Vec<Row> = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let (mut key, mut index) = ([0; 32], [0; 8]);
        key.copy_from_slice(&chunk[..32]);
        index.copy_from_slice(&chunk[32..]);
        if bucket(&key) != bucket_number {
            return Err(RowsError::Prefix);
        }
        if rows.last().is_some_and(|last| last.key >= key) {
            return Err(RowsError::Order);
        }
        rows.push(Row { key, index: u64::from_be_bytes(index) });
    }
    Ok(rows)
}

/// The index that the rows give for a key.
pub fn find(rows: &[Row], key: &[u8; 32]) -> Option<u64> {
    let place = rows.binary_search_by(|row| row.key.cmp(key)).ok()?;
    rows.get(place).map(|row| row.index)
}

/// Adds rows and keeps the order. A row with a known key replaces the old one.
pub fn merge(rows: &mut Vec<Row>, new: impl IntoIterator<Item = Row>) {
    for row in new {
        match rows.binary_search_by(|old| old.key.cmp(&row.key)) {
            Ok(place) => {
                if let Some(old) = rows.get_mut(place) {
                    *old = row;
                }
            }
            Err(place) => rows.insert(place, row),
        }
    }
}

/// The bytes of a file with these rows.
pub fn encode(rows: &[Row]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * ROW_LEN);
    for row in rows {
        bytes.extend_from_slice(&row.key);
        bytes.extend_from_slice(&row.index.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(second: u8, index: u64) -> Row {
        let mut key = [7; 32];
        key[2] = second;
        Row { key, index }
    }

    #[test]
    fn rows_come_back_sorted_and_are_found() {
        let mut rows = Vec::new();
        merge(&mut rows, [row(9, 1), row(2, 2), row(5, 3), row(2, 4)]);
        assert_eq!(rows, [row(2, 4), row(5, 3), row(9, 1)]);
        assert_eq!(parse(0x0707, &encode(&rows)).as_ref(), Ok(&rows));
        assert_eq!(find(&rows, &row(5, 0).key), Some(3));
        assert_eq!(find(&rows, &row(6, 0).key), None);
    }

    #[test]
    fn foreign_torn_and_unsorted_rows_are_refused() {
        let bytes = encode(&[row(1, 1), row(2, 2)]);
        assert_eq!(parse(0x0707, &bytes[..79]), Err(RowsError::Length));
        assert_eq!(parse(0x0708, &bytes), Err(RowsError::Prefix));
        assert_eq!(parse(0x0707, &encode(&[row(2, 1), row(1, 2)])), Err(RowsError::Order));
        assert_eq!(parse(0x0707, &encode(&[row(2, 1), row(2, 2)])), Err(RowsError::Order));
    }
}
