//! Settings that are defined once: types that read themselves from TOML and describe themselves.
//!
//! The macro `settings!` takes a struct whose fields have a key, a doc comment and a default. It
//! makes the struct, its `Default`, its `Deserialize` and its [`Settings`], which produce
//! `--print-config` and `docs/configuration.md`. To add a setting, add one field.
//!
//! Left to others: parsing TOML, and loading the files that settings name (the program).

mod text;
mod values;

use std::path::PathBuf;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor, value};

pub use self::text::{reference, template};

/// A group of settings: a configuration file, a table in it, or a part that several files share.
pub trait Settings: Default {
    /// The doc comment of the type, line by line.
    const ABOUT: &'static [&'static str];

    /// Reads the value of the setting `key`. False if there is no such setting.
    fn set<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;

    /// Adds every setting, with its current value as the default.
    fn describe(&self, entries: &mut Vec<Entry>);

    /// Every setting, with its current value as the default.
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        self.describe(&mut entries);
        entries
    }

    /// Calls `change` for every path.
    fn each_path(&mut self, change: &mut dyn FnMut(&mut PathBuf));
}

/// A value that a setting can have.
pub trait Setting: Sized {
    /// Reads it. The key gives the unit and names the setting in errors.
    fn read<'de, D: Deserializer<'de>>(key: &str, value: D) -> Result<Self, D::Error>;

    /// The value as TOML, unless it is unset.
    fn show(&self, _key: &str) -> Option<String> {
        None
    }

    /// What it contains, if this is a table or an array of tables.
    fn table() -> Option<Table> {
        None
    }

    /// Calls `change` for every path that it contains.
    fn each_path(&mut self, _change: &mut dyn FnMut(&mut PathBuf)) {}
}

/// A group of settings is also a value: a table.
impl<T: Settings> Setting for T {
    fn read<'de, D: Deserializer<'de>>(_key: &str, value: D) -> Result<Self, D::Error> {
        deserialize(value)
    }

    fn table() -> Option<Table> {
        Some(Table { is_array: false, entries: Self::default().entries() })
    }

    fn each_path(&mut self, change: &mut dyn FnMut(&mut PathBuf)) {
        Settings::each_path(self, change);
    }
}

/// The description of a setting.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key, with the names of its tables: `limits.cpu_threads`.
    pub key: &'static str,
    /// The doc comment, line by line.
    pub doc: &'static [&'static str],
    /// The default as TOML, unless it is unset.
    pub default: Option<String>,
    /// A value as TOML, for a setting that is unset, required, or different on each machine.
    pub example: Option<&'static str>,
    /// Whether the file must have it.
    pub required: bool,
    /// Whether it is accepted but not described.
    pub hidden: bool,
    /// What it contains, if this is a table or an array of tables.
    pub table: Option<Table>,
}

/// A table, `[name]`, or an array of tables, `[[name]]`.
#[derive(Clone, Debug)]
pub struct Table {
    /// Whether there may be several.
    pub is_array: bool,
    /// The settings in it.
    pub entries: Vec<Entry>,
}

/// Defines a group of settings. Each field has a mark in brackets:
///
/// - `["key"]`: a setting with this key, dotted inside of a table. A `Duration` takes its unit from
///   the end of the key, `_s` or `_ms`.
/// - `["key", example "TOML"]`: the same; the template shows the example instead of the default.
/// - `["key", required "TOML"]`: the same, and it must be in the file. Tables have no example.
/// - `[group]`: the settings of another group, as if they were written here.
/// - `[hidden]`: the same, but left out of descriptions.
/// - `[loaded]`: not in the file. The program fills it in.
///
/// A field without `= default` has its type's default.
macro_rules! settings {
    (
        $(#[doc = $about:literal])*
        $(#[derive($($derive:ident),*)])?
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                [$($mark:tt)*] $field_vis:vis $field:ident: $type:ty $(= $default:expr)?,
            )*
        }
    ) => {
        $(#[doc = $about])*
        $(#[derive($($derive),*)])?
        $vis struct $name {
            $(
                $(#[doc = $doc])*
                #[doc = $crate::settings::settings!(@doc [$($mark)*])]
                $field_vis $field: $type,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::settings::settings!(@default $($default)?),)* }
            }
        }

        impl $crate::settings::Settings for $name {
            const ABOUT: &'static [&'static str] = &[$($about),*];

            fn set<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                $($crate::settings::settings!(@set [$($mark)*] self.$field, key, map);)*
                Ok(false)
            }

            fn describe(&self, entries: &mut Vec<$crate::settings::Entry>) {
                $($crate::settings::settings!(
                    @entry [$($mark)*] self.$field, $type, &[$($doc),*], entries
                );)*
            }

            fn each_path(&mut self, change: &mut dyn FnMut(&mut std::path::PathBuf)) {
                $($crate::settings::settings!(@path [$($mark)*] self.$field, change);)*
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
                $crate::settings::deserialize(value)
            }
        }
    };

    (@doc [group]) => { "More settings." };
    (@doc [hidden]) => { "More settings, accepted but not described." };
    (@doc [$($mark:tt)*]) => { "" };

    (@default $default:expr) => { $default };
    (@default) => { Default::default() };

    (@set [group] $field:expr, $key:ident, $map:ident) => {
        if $crate::settings::Settings::set(&mut $field, $key, $map)? {
            return Ok(true);
        }
    };
    (@set [hidden] $field:expr, $key:ident, $map:ident) => {
        $crate::settings::settings!(@set [group] $field, $key, $map);
    };
    (@set [loaded] $field:expr, $key:ident, $map:ident) => {};
    (@set [$name:literal $(, $($rest:tt)*)?] $field:expr, $key:ident, $map:ident) => {
        if $key == $name {
            $field = $map.next_value_seed($crate::settings::Value::new($name))?;
            return Ok(true);
        }
    };

    (@entry [group] $field:expr, $type:ty, $doc:expr, $entries:ident) => {
        $crate::settings::Settings::describe(&$field, $entries);
    };
    (@entry [hidden] $field:expr, $type:ty, $doc:expr, $entries:ident) => {
        let hide = |entry| $crate::settings::Entry { hidden: true, ..entry };
        $entries.extend($crate::settings::Settings::entries(&$field).into_iter().map(hide));
    };
    (@entry [loaded] $field:expr, $type:ty, $doc:expr, $entries:ident) => {};
    (
        @entry [$name:literal $(, $kind:ident $($example:literal)?)?]
        $field:expr, $type:ty, $doc:expr, $entries:ident
    ) => {
        $entries.push($crate::settings::Entry {
            key: $name,
            doc: $doc,
            default: $crate::settings::Setting::show(&$field, $name),
            example: None$($(.or(Some($example)))?)?,
            required: false$( || stringify!($kind) == "required")?,
            hidden: false,
            table: <$type as $crate::settings::Setting>::table(),
        });
    };

    (@path [group] $field:expr, $change:ident) => {
        $crate::settings::Settings::each_path(&mut $field, $change);
    };
    (@path [hidden] $field:expr, $change:ident) => {
        $crate::settings::Settings::each_path(&mut $field, $change);
    };
    (@path [loaded] $field:expr, $change:ident) => {};
    (@path [$name:literal $(, $($rest:tt)*)?] $field:expr, $change:ident) => {
        $crate::settings::Setting::each_path(&mut $field, $change);
    };
}

pub(crate) use settings;

/// Sets one setting from a text that is not from the file. False if there is no such setting.
pub fn assign<T: Settings>(settings: &mut T, key: &str, text: &str) -> Result<bool, value::Error> {
    let mut map = value::MapDeserializer::<_, value::Error>::new(std::iter::once((key, text)));
    map.next_key::<IgnoredAny>()?;
    settings.set(key, &mut map)
}

/// The `Deserialize` of settings.
pub(crate) fn deserialize<'de, T: Settings, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    let mut settings = T::default();
    let entries = settings.entries();
    let mut missing: Vec<&str> =
        entries.iter().filter(|entry| entry.required).map(|entry| entry.key).collect();
    let known: Vec<&str> = entries.iter().map(|entry| entry.key).collect();
    let reader =
        Reader { settings: &mut settings, known: &known, missing: &mut missing, table: "" };
    reader.deserialize(value)?;
    match missing.first() {
        Some(key) => Err(D::Error::custom(format!("missing field `{key}`"))),
        None => Ok(settings),
    }
}

/// Reads a table of the file into `settings`.
struct Reader<'a, T> {
    settings: &'a mut T,
    known: &'a [&'static str],
    missing: &'a mut Vec<&'static str>,
    /// The names of the enclosing tables, each followed by a dot.
    table: &'a str,
}

impl<'de, T: Settings> DeserializeSeed<'de> for Reader<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_map(self)
    }
}

impl<'de, T: Settings> Visitor<'de> for Reader<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { settings, known, missing, table } = self;
        while let Some(key) = map.next_key_seed(Key { known, table })? {
            if settings.set(&key, &mut map)? {
                missing.retain(|missing| *missing != key);
                continue;
            }
            let table = format!("{key}.");
            map.next_value_seed(Reader { settings, known, missing, table: &table })?;
        }
        Ok(())
    }
}

/// Reads a known key, or the name of a table.
struct Key<'a> {
    known: &'a [&'static str],
    table: &'a str,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<String, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        let mut names: Vec<&str> = Vec::new();
        for known in self.known.iter().filter_map(|known| known.strip_prefix(self.table)) {
            let name = known.split('.').next().unwrap_or(known);
            if name == key {
                return Ok(format!("{}{key}", self.table));
            }
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let names = names.join("`, `");
        Err(E::custom(format!("unknown field `{key}`, expected one of `{names}`")))
    }
}

/// Reads the value of a setting.
pub(crate) struct Value<'a, T> {
    key: &'a str,
    type_: std::marker::PhantomData<T>,
}

impl<'a, T> Value<'a, T> {
    pub(crate) fn new(key: &'a str) -> Self {
        Self { key, type_: std::marker::PhantomData }
    }
}

impl<'de, T: Setting> DeserializeSeed<'de> for Value<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<T, D::Error> {
        T::read(self.key, value)
    }
}
