//! Scheme and authority of a server, compared by the rules for URLs.

use sotto_wire::{HttpUrl, normal_authority};

use crate::error::BindError;

/// An origin, such as `https://leader.example`.
#[derive(Debug)]
pub(crate) struct Origin {
    scheme: String,
    /// Without the default port of the scheme.
    authority: String,
}

impl Origin {
    pub(crate) fn parse(text: &str) -> Result<Self, BindError> {
        let refused = |reason: String| BindError::Config(format!("the origin {text:?} {reason}"));
        let url = HttpUrl::parse_setting(text).map_err(|error| refused(error.to_string()))?;
        if url.path_and_query() != "/" {
            return Err(refused("is more than a scheme and an authority".to_owned()));
        }
        Ok(Self { scheme: url.scheme().to_owned(), authority: url.origin_authority() })
    }

    /// The authority, as in the `host` field of a request.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether a request with this scheme and authority is for this server.
    pub(super) fn is(&self, scheme: &str, authority: &str) -> bool {
        let default_port = if self.scheme == "http" { ":80" } else { ":443" };
        let authority = authority.strip_suffix(default_port).unwrap_or(authority);
        self.scheme.eq_ignore_ascii_case(scheme) && self.authority == normal_authority(authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_origin_are_equal() {
        for text in ["https://leader.example", "https://LEADER.example:443/"] {
            let origin = Origin::parse(text).unwrap();
            for authority in ["leader.example", "Leader.Example", "leader.example:443"] {
                assert!(origin.is("https", authority) && origin.is("HTTPS", authority), "{text}");
            }
            for other in
                ["", "leader.example:80", "leader.example.", "a.leader.example", "u@leader.example"]
            {
                assert!(!origin.is("https", other), "{other}");
            }
            assert!(!origin.is("http", "leader.example"));
        }
        assert!(Origin::parse("http://[::1]:8080").unwrap().is("http", "[::1]:8080"));
        assert!(Origin::parse("http://a.example").unwrap().is("http", "a.example:80"));
        let spellings = ["[::1]:8080", "[0:0:0:0:0:0:0:1]:8080"];
        for (one, other) in spellings.into_iter().zip(spellings.into_iter().rev()) {
            assert!(Origin::parse(&format!("HTTP://{one}")).unwrap().is("http", other), "{one}");
        }
    }

    #[test]
    fn an_origin_is_nothing_more() {
        for bad in [
            "",
            "leader.example",
            "ftp://leader.example",
            "https://leader.example/path",
            "https://leader.example/?query",
            "https://leader.example/#fragment",
            "https://user@leader.example",
            "https://",
        ] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
