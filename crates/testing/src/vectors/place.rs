//! A value in a file, with its path for error messages.

use serde_json::Value;

use super::{Difference, Tally};

/// Prose for people: it is not checked.
const PROSE: [&str; 7] = ["comment", "note", "reason", "source", "what", "why", "kind"];

/// A value and its path.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Place<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    /// A difference at this value.
    pub(super) fn difference(&self, what: impl Into<String>) -> Difference {
        let place = if self.path.is_empty() { "the file".to_owned() } else { self.path.clone() };
        Difference { place, what: what.into() }
    }

    /// A field, if it exists and is not null.
    pub(super) fn get(&self, field: &str) -> Option<Self> {
        let value = self.value.get(field).filter(|value| !value.is_null())?;
        Some(Self { path: self.join(field), value })
    }

    /// A required field.
    pub(super) fn at(&self, field: &str) -> Result<Self, Difference> {
        self.get(field).ok_or_else(|| {
            Self { path: self.join(field), value: self.value }.difference("is missing")
        })
    }

    /// The elements of a list; an element with an `id` is named by it.
    pub(super) fn list(&self) -> Result<Vec<Self>, Difference> {
        let list = self.value.as_array().ok_or_else(|| self.difference("is not a list"))?;
        let element = |(index, value): (usize, &'a Value)| {
            let path = match value.get("id").and_then(Value::as_str) {
                Some(id) => id.to_owned(),
                None => format!("{}[{index}]", self.path),
            };
            Self { path, value }
        };
        Ok(list.iter().enumerate().map(element).collect())
    }

    /// The fields of an object.
    pub(super) fn fields(&self) -> Result<Vec<(&'a str, Self)>, Difference> {
        let object = self.value.as_object().ok_or_else(|| self.difference("is not an object"))?;
        let field =
            |(name, value): (&'a String, _)| (name.as_str(), Self { path: self.join(name), value });
        Ok(object.iter().map(field).collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, Difference> {
        self.value.as_str().ok_or_else(|| self.difference("is not text"))
    }

    pub(super) fn number(&self) -> Result<u64, Difference> {
        self.value.as_u64().ok_or_else(|| self.difference("is not a number"))
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool()
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Bytes in lowercase hexadecimal. Upper case is rejected: one value has one text.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Difference> {
        let text = self.text()?;
        hex::decode(text)
            .ok()
            .filter(|_| !text.bytes().any(|byte| byte.is_ascii_uppercase()))
            .ok_or_else(|| self.difference("is not lowercase hexadecimal"))
    }

    pub(super) fn array<const N: usize>(&self) -> Result<[u8; N], Difference> {
        let bytes = self.bytes()?;
        let len = bytes.len();
        bytes.try_into().map_err(|_| self.difference(format!("has {len} bytes, not {N}")))
    }

    /// Compares with the computed value.
    pub(super) fn expect(
        &self,
        computed: impl Into<Value>,
        tally: &mut Tally,
    ) -> Result<(), Difference> {
        let computed = computed.into();
        if *self.value != computed {
            let (given, computed) = (shown(self.value), shown(&computed));
            return Err(self.difference(format!("the file says {given}, computed is {computed}")));
        }
        tally.values += 1;
        Ok(())
    }

    /// Compares bytes with the computed value.
    pub(super) fn expect_bytes(
        &self,
        computed: impl AsRef<[u8]>,
        tally: &mut Tally,
    ) -> Result<(), Difference> {
        self.expect(hex::encode(computed), tally)
    }

    /// Compares all fields with the computed values: none may be missing, and none may be left
    /// over.
    pub(super) fn expect_fields(
        &self,
        computed: Vec<(&str, Value)>,
        tally: &mut Tally,
    ) -> Result<(), Difference> {
        for (name, value) in &computed {
            self.at(name)?.expect(value.clone(), tally)?;
        }
        for (name, field) in self.fields()? {
            if !PROSE.contains(&name) && computed.iter().all(|(known, _)| *known != name) {
                return Err(field.difference("is not known here, so that it cannot be checked"));
            }
        }
        Ok(())
    }

    /// Rejects fields other than these and prose.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), Difference> {
        for (name, field) in self.fields()? {
            if !known.contains(&name) && !PROSE.contains(&name) {
                return Err(field.difference("is not known here, so that it cannot be checked"));
            }
        }
        Ok(())
    }

    fn join(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }
}

/// Bytes as the files write them.
pub(super) fn hex_value(bytes: impl AsRef<[u8]>) -> Value {
    Value::String(hex::encode(bytes))
}

/// The start of a value is enough to find it.
fn shown(value: &Value) -> String {
    const SHOWN: usize = 48;
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => {
            format!("{}... ({} characters)", text.get(..end).unwrap_or_default(), text.len())
        }
        None if text.is_empty() => "nothing".to_owned(),
        None => text,
    }
}
