//! Scheme and authority of a server, compared as URLs compare them.

use reqwest::Url;

use crate::error::BindError;

/// Such as `https://leader.example`.
#[derive(Debug)]
pub(crate) struct Origin {
    scheme: String,
    /// Without the port that the scheme has by default.
    authority: String,
}

impl Origin {
    pub(crate) fn parse(text: &str) -> Result<Self, BindError> {
        let refused = |reason| BindError::Config(format!("the origin {text:?} {reason}"));
        let url = Url::parse(text).map_err(|_| refused("is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("is not one of HTTP"));
        }
        let is_bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if !is_bare {
            return Err(refused("is more than a scheme and an authority"));
        }
        let origin = url.origin().ascii_serialization();
        let authority = origin.split_once("://").map(|(_, authority)| authority.to_owned());
        let authority = authority.ok_or_else(|| refused("has no authority"))?;
        Ok(Self { scheme: url.scheme().to_owned(), authority })
    }

    /// The authority, as it is in the `host` of a request.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether a request with this scheme and authority is for this server.
    pub(super) fn is(&self, scheme: &str, authority: &str) -> bool {
        let default_port = if self.scheme == "http" { ":80" } else { ":443" };
        let authority = authority.strip_suffix(default_port).unwrap_or(authority);
        self.scheme.eq_ignore_ascii_case(scheme) && self.authority.eq_ignore_ascii_case(authority)
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
