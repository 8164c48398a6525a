//! The types that settings can have.

use std::fmt::Formatter;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use sotto_crypto::Secret;
use sotto_wire::{KeyName, TaskId, TlogPolicy, VerifierKey};

use super::{Setting, Table, Value};

/// Types that serde reads and that are written the same in TOML and in Rust.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn read<'de, D: Deserializer<'de>>(_key: &str, value: D) -> Result<Self, D::Error> {
                Self::deserialize(value)
            }

            fn show(&self, _key: &str) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}

plain!(bool, u32, u64, usize);

/// Types that are strings in TOML.
macro_rules! text {
    ($($type:ty: $what:literal),*) => {$(
        impl Setting for $type {
            fn read<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
                let text = String::deserialize(value)?;
                text.parse().map_err(|_| {
                    D::Error::custom(format!("{key}: {text:?} is not {}", $what))
                })
            }

            fn show(&self, _key: &str) -> Option<String> {
                Some(format!("\"{self}\""))
            }
        }
    )*};
}

text!(
    IpAddr: "an address without a port, like 192.0.2.7",
    SocketAddr: "an address with a port, like 127.0.0.1:8080",
    KeyName: "the name of an operator",
    TaskId: "a task id",
    VerifierKey: "a public key"
);

impl Setting for String {
    fn read<'de, D: Deserializer<'de>>(_key: &str, value: D) -> Result<Self, D::Error> {
        Self::deserialize(value)
    }

    fn show(&self, _key: &str) -> Option<String> {
        (!self.is_empty()).then(|| format!("{self:?}"))
    }
}

impl Setting for PathBuf {
    fn read<'de, D: Deserializer<'de>>(_key: &str, value: D) -> Result<Self, D::Error> {
        Self::deserialize(value)
    }

    fn show(&self, _key: &str) -> Option<String> {
        Some(format!("\"{}\"", self.display()))
    }

    fn each_path(&mut self, change: &mut dyn FnMut(&mut PathBuf)) {
        change(self);
    }
}

impl Setting for Duration {
    fn read<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(value)?;
        Ok(if key.ends_with("_ms") { Self::from_millis(number) } else { Self::from_secs(number) })
    }

    fn show(&self, key: &str) -> Option<String> {
        let number =
            if key.ends_with("_ms") { self.as_millis() } else { u128::from(self.as_secs()) };
        Some(number.to_string())
    }
}

/// Secrets are neither shown nor quoted.
impl Setting for Secret<String> {
    fn read<'de, D: Deserializer<'de>>(_key: &str, value: D) -> Result<Self, D::Error> {
        String::deserialize(value).map(Self::new)
    }
}

impl Setting for TlogPolicy {
    fn read<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        let text = String::deserialize(value)?;
        Self::parse(&text).map_err(|error| D::Error::custom(format!("{key}: {error}")))
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        T::read(key, value).map(Some)
    }

    fn show(&self, key: &str) -> Option<String> {
        self.as_ref()?.show(key)
    }

    fn table() -> Option<Table> {
        T::table()
    }

    fn each_path(&mut self, change: &mut dyn FnMut(&mut PathBuf)) {
        self.iter_mut().for_each(|value| value.each_path(change));
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error> {
        value.deserialize_seq(List { key, type_: PhantomData })
    }

    fn show(&self, key: &str) -> Option<String> {
        let shown: Option<Vec<String>> = self.iter().map(|value| value.show(key)).collect();
        Some(format!("[{}]", shown?.join(", ")))
    }

    fn table() -> Option<Table> {
        T::table().map(|table| Table { is_array: true, ..table })
    }

    fn each_path(&mut self, change: &mut dyn FnMut(&mut PathBuf)) {
        self.iter_mut().for_each(|value| value.each_path(change));
    }
}

struct List<'a, T> {
    key: &'a str,
    type_: PhantomData<T>,
}

impl<'de, T: Setting> Visitor<'de> for List<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Value::new(self.key))? {
            values.push(value);
        }
        Ok(values)
    }
}
