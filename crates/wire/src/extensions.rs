//! Extension lists of the four registries (DAP "Task Extensions", "Report Extensions", "Aggregation
//! Job Extensions", "Collection Job Extensions").
//!
//! Every list is ordered by strictly increasing type. There are two forms. [`ExtensionList`]
//! belongs to messages that are accepted or rejected as a whole: a list out of order does not
//! decode. [`Extensions`] belongs to a report: it keeps the bytes as received and is checked on
//! demand, so that one bad report among thousands is rejected alone. The caller decides whether an
//! unknown extension is acceptable: in DAP it never is, but the response depends on the message.

use std::borrow::Cow;
use std::fmt;

use crate::codec::{
    BoundsError, Decode, DecodeError, Encode, Reader, Sink, length, put_opaque_u16,
};

/// One report extension.
#[derive(Clone, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The code point in the registry of report extensions.
    pub extension_type: u16,
    /// The data, at most 2^16-1 bytes.
    pub extension_data: Cow<'a, [u8]>,
}

/// The extensions of a report, public or private, as received: `Extension extensions<0..2^16-1>`.
///
/// Nothing inside is checked until [`check`](Self::check) or [`iter`](Self::iter). `Debug` shows
/// only the length, because private extensions carry secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Extensions<'a>(Cow<'a, [u8]>);

impl<'a> Extensions<'a> {
    /// The empty list.
    pub const fn empty() -> Self {
        Self(Cow::Borrowed(&[]))
    }

    /// Encodes `extensions`, which must be in order and fit.
    pub fn new(extensions: &[Extension<'_>]) -> Result<Extensions<'static>, BoundsError> {
        let mut out = Vec::new();
        let mut order = Order::default();
        for extension in extensions {
            order.admit(extension.extension_type)?;
            if u16::try_from(extension.extension_data.len()).is_err() {
                return Err(BoundsError::Length("extension_data"));
            }
            out.extend_from_slice(&extension.extension_type.to_be_bytes());
            put_opaque_u16(&mut out, &extension.extension_data);
        }
        check_list_len(out.len())?;
        Ok(Extensions(Cow::Owned(out)))
    }

    /// Whether there are no extensions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every extension can be read and types strictly increase.
    pub fn check(&self) -> Result<(), DecodeError> {
        self.iter().try_for_each(|extension| extension.map(drop))
    }

    /// The extensions in order. The iterator ends after the first error.
    pub fn iter(&self) -> ExtensionIter<'_> {
        ExtensionIter { reader: Reader::new(&self.0), order: Order::default() }
    }

    /// The list as it was received, without its length prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same list, independent of the received buffer.
    pub fn into_owned(self) -> Extensions<'static> {
        Extensions(Cow::Owned(self.0.into_owned()))
    }
}

impl fmt::Debug for Extension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension({:#06x}, {} bytes)", self.extension_type, self.extension_data.len())
    }
}

impl fmt::Debug for Extensions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({} bytes)", self.0.len())
    }
}

impl Encode for Extensions<'_> {
    fn encode(&self, out: &mut impl Sink) {
        put_opaque_u16(out, &self.0);
    }
}

impl<'a> Decode<'a> for Extensions<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self(Cow::Borrowed(reader.opaque_u16()?)))
    }
}

/// Iterates over [`Extensions`].
#[derive(Clone, Debug)]
pub struct ExtensionIter<'a> {
    reader: Reader<'a>,
    order: Order,
}

impl<'a> Iterator for ExtensionIter<'a> {
    type Item = Result<Extension<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let result = next_extension(&mut self.reader, &mut self.order);
        if result.is_err() {
            self.reader.rest();
        }
        Some(result.map(|(extension_type, data)| Extension {
            extension_type,
            extension_data: Cow::Borrowed(data),
        }))
    }
}

/// An extension type of one registry: known types by name, others as bytes.
pub trait ExtensionKind: Sized + PartialEq {
    /// The code point.
    fn extension_type(&self) -> u16;

    /// Appends the data, without its length prefix.
    fn encode_data(&self, out: &mut impl Sink);

    /// The number of bytes that [`encode_data`](Self::encode_data) appends.
    fn data_len(&self) -> usize {
        length(|out| self.encode_data(out))
    }

    /// Decodes the data of one extension; an unknown type is kept unchanged.
    fn decode_data(extension_type: u16, data: &[u8]) -> Result<Self, DecodeError>;
}

/// An ordered list of extensions, `T extensions<0..2^16-1>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionList<T> {
    extensions: Vec<T>,
    list_len: usize,
}

impl<T: ExtensionKind> ExtensionList<T> {
    /// Checks that types strictly increase, that the list fits, and that no extension kept as
    /// unknown has a known type.
    pub fn new(extensions: Vec<T>) -> Result<Self, BoundsError> {
        let mut order = Order::default();
        let mut list_len = 0usize;
        let mut data = Vec::new();
        for extension in &extensions {
            let extension_type = extension.extension_type();
            order.admit(extension_type)?;
            list_len = list_len.saturating_add(4).saturating_add(extension.data_len());
            check_list_len(list_len)?;
            data.clear();
            extension.encode_data(&mut data);
            if T::decode_data(extension_type, &data).as_ref() != Ok(extension) {
                return Err(BoundsError::ExtensionData(extension_type));
            }
        }
        Ok(Self { extensions, list_len })
    }

    /// The extensions as a slice.
    pub fn as_slice(&self) -> &[T] {
        &self.extensions
    }

    /// The extensions in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.extensions.iter()
    }

    /// Whether there are no extensions.
    pub fn is_empty(&self) -> bool {
        self.extensions.is_empty()
    }
}

impl<T> Default for ExtensionList<T> {
    fn default() -> Self {
        Self { extensions: Vec::new(), list_len: 0 }
    }
}

impl<T: ExtensionKind> Encode for ExtensionList<T> {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&(self.list_len as u16).to_be_bytes());
        for extension in &self.extensions {
            out.extend_from_slice(&extension.extension_type().to_be_bytes());
            out.extend_from_slice(&(extension.data_len() as u16).to_be_bytes());
            extension.encode_data(out);
        }
    }
}

impl<'a, T: ExtensionKind> Decode<'a> for ExtensionList<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let list = reader.opaque_u16()?;
        // The first pass counts, so that the vector is never larger than its contents.
        let mut count = 0;
        let (mut reader, mut order) = (Reader::new(list), Order::default());
        while !reader.is_empty() {
            next_extension(&mut reader, &mut order)?;
            count += 1;
        }
        let mut extensions = Vec::with_capacity(count);
        let (mut reader, mut order) = (Reader::new(list), Order::default());
        while !reader.is_empty() {
            let (extension_type, data) = next_extension(&mut reader, &mut order)?;
            extensions.push(T::decode_data(extension_type, data)?);
        }
        Ok(Self { extensions, list_len: list.len() })
    }
}

/// Reads one value that takes up all the data of an extension of type `extension_type`.
pub(crate) fn extension_value<'a, V: Decode<'a>>(
    extension_type: u16,
    data: &'a [u8],
) -> Result<V, DecodeError> {
    V::from_bytes(data).map_err(|_| BoundsError::ExtensionData(extension_type).into())
}

/// The smallest type that may follow; `None` after the largest possible one.
#[derive(Clone, Debug)]
struct Order(Option<u16>);

impl Default for Order {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl Order {
    fn admit(&mut self, extension_type: u16) -> Result<(), BoundsError> {
        if self.0.is_none_or(|least| extension_type < least) {
            return Err(BoundsError::ExtensionsOutOfOrder);
        }
        self.0 = extension_type.checked_add(1);
        Ok(())
    }
}

fn next_extension<'a>(
    reader: &mut Reader<'a>,
    order: &mut Order,
) -> Result<(u16, &'a [u8]), DecodeError> {
    let extension_type = reader.u16()?;
    let data = reader.opaque_u16()?;
    order.admit(extension_type)?;
    Ok((extension_type, data))
}

fn check_list_len(len: usize) -> Result<(), BoundsError> {
    if u16::try_from(len).is_err() { Err(BoundsError::Length("extensions")) } else { Ok(()) }
}
