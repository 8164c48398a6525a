//! JSON without duplicate keys.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a JSON value and refuses duplicate keys, of which a parser would see only one. The error
/// names the position.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = At("$").deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// A value at this position.
struct At<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) =
            items.next_element_seed(At(&format!("{}[{}]", self.0, values.len())))?
        {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = format!("{}.{key}", self.0);
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("{path} is written twice")));
            }
            let value = entries.next_value_seed(At(&path))?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_usual_json() {
        for text in [
            r#"{"a":[1,-2,2.5,"x",null,true,{"b":{}}],"c":18446744073709551615}"#,
            "[]",
            "7",
            r#""\u00e9\n""#,
        ] {
            let usual: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text).unwrap(), usual, "{text}");
        }
        for text in ["", "{", "[1,]", "{} {}", "nul"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn duplicates_are_refused_with_their_place() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error(r#"{"a":1,"a":1}"#).starts_with("$.a is written twice at line 1"));
        assert!(error(r#"{"of":[1,{"b":1,"c":2,"b":3}]}"#).starts_with("$.of[1].b is written"));
    }
}
