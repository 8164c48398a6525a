//! URLs of HTTP resources (RFC 9110 §4.2), in the spelling in which they were given.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The URL of an HTTP resource: `http` or `https`, a host, a path and perhaps a query, all in
/// visible ASCII.
///
/// It has no user information, which would be sent with every request, and no fragment, which is
/// never sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    text: String,
    /// Where the path begins.
    path_at: usize,
}

/// Why a text is not an [`HttpUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("does not begin with https:// or http://")]
    Scheme,
    /// A user name or a password, which would be sent with every request.
    #[error("names a user: leave that out, and set a token where one is needed")]
    User,
    /// An international host name.
    #[error("has a host that is not ASCII: write it in punycode, like xn--bcher-kva.example")]
    International,
    /// No host, or an invalid host or port.
    #[error("has no valid host, or an invalid port: write it like https://host/path")]
    Authority,
    /// A fragment, which is never sent.
    #[error("has a fragment: leave out what begins with #")]
    Fragment,
    /// Something that a request cannot contain.
    #[error("has a character that a URL cannot have")]
    Character,
}

impl HttpUrl {
    /// Reads an absolute URL. An empty path becomes `/`; nothing else changes, because these bytes
    /// are sent.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let mut schemes = ["https://", "http://"].iter();
        let scheme = schemes.find(|scheme| text.starts_with(**scheme)).ok_or(UrlError::Scheme)?;
        let (head, path) = text.split_at(authority_end(text));
        let (_, authority) = head.split_at(scheme.len());
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        if !authority.is_ascii() {
            return Err(UrlError::International);
        }
        if path.contains('#') {
            return Err(UrlError::Fragment);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return Err(UrlError::Character);
        }
        if !is_authority(authority) || path.starts_with('?') {
            return Err(UrlError::Authority);
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { text: format!("{head}{path}"), path_at: head.len() })
    }

    /// Reads a URL that a person wrote: scheme and host may be in any case, and become lower case.
    pub fn parse_setting(text: &str) -> Result<Self, UrlError> {
        let (head, path) = text.split_at(authority_end(text));
        Self::parse(&format!("{}{path}", head.to_ascii_lowercase()))
    }

    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        if self.text.starts_with("https:") { "https" } else { "http" }
    }

    /// The host, and the port if one is given.
    pub fn authority(&self) -> &str {
        let (head, _) = self.text.split_at(self.path_at);
        head.split_at(self.scheme().len() + "://".len()).1
    }

    /// Path and query, as in a request line.
    pub fn path_and_query(&self) -> &str {
        self.text.split_at(self.path_at).1
    }

    /// The path. It begins with a slash.
    pub fn path(&self) -> &str {
        self.path_and_query().split('?').next().unwrap_or_default()
    }

    /// The query, without its question mark.
    pub fn query(&self) -> Option<&str> {
        self.path_and_query().split_once('?').map(|(_, query)| query)
    }

    /// Whether requests to both go to the same server, whatever the spelling.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.scheme() == other.scheme() && self.origin_authority() == other.origin_authority()
    }

    /// The authority in the normal form of its origin: without the default port, and otherwise as
    /// [`normal_authority`] writes it.
    pub fn origin_authority(&self) -> String {
        let default_port = if self.scheme() == "http" { ":80" } else { ":443" };
        let authority = self.authority().strip_suffix(':').unwrap_or(self.authority());
        normal_authority(authority.strip_suffix(default_port).unwrap_or(authority))
    }

    /// Whether requests to it leave the machine unencrypted.
    pub fn is_exposed(&self) -> bool {
        let host = host_of(self.authority());
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_named = host.eq_ignore_ascii_case("localhost");
        self.scheme() == "http" && !address.map_or(is_named, |address| address.is_loopback())
    }

    /// A resource below this URL, whether or not it ends in a slash.
    pub fn below(&self, path: &str) -> Result<Self, UrlError> {
        Self::parse(&format!("{}/{path}", self.text.trim_end_matches('/')))
    }

    /// Resolves a reference in a response from this URL (RFC 3986 §5.2).
    pub fn join(&self, reference: &str) -> Result<Self, UrlError> {
        let reference = reference.split('#').next().unwrap_or_default();
        let has_scheme = reference.split(['/', '?']).next().is_some_and(|part| part.contains(':'));
        if has_scheme {
            return Self::parse(reference);
        }
        if reference.starts_with("//") {
            return Self::parse(&format!("{}:{reference}", self.scheme()));
        }
        let (head, _) = self.text.split_at(self.path_at);
        let (path, query) = reference.split_at(reference.find('?').unwrap_or(reference.len()));
        let path = match path {
            "" if query.is_empty() => return Ok(self.clone()),
            "" => self.path().to_owned(),
            absolute if absolute.starts_with('/') => without_dots(absolute),
            relative => {
                let folder = self.path().rsplit_once('/').map_or("", |(folder, _)| folder);
                without_dots(&format!("{folder}/{relative}"))
            }
        };
        Self::parse(&format!("{head}{path}{query}"))
    }

    /// This URL with one more query parameter.
    pub fn with_parameter(&self, name: &str, value: &str) -> Result<Self, UrlError> {
        let separator = if self.query().is_some() { '&' } else { '?' };
        Self::parse(&format!("{}{separator}{name}={value}", self.text))
    }

    /// Whether the query has a parameter with this name.
    pub fn has_parameter(&self, name: &str) -> bool {
        let mut parameters = self.query().unwrap_or_default().split('&');
        parameters.any(|parameter| parameter.split('=').next() == Some(name))
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A host and perhaps a port.
fn is_authority(authority: &str) -> bool {
    let host = host_of(authority);
    let port = authority.strip_prefix(host).unwrap_or_default();
    let is_port = match port.strip_prefix(':') {
        Some(digits) => {
            digits.is_empty()
                || digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
        }
        None => port.is_empty(),
    };
    let is_name = !host.is_empty() && host.bytes().all(is_host_byte);
    is_port && (is_name || ipv6(host).is_some())
}

/// Where the authority of a URL ends.
fn authority_end(url: &str) -> usize {
    let authority_at = url.find("://").map_or(0, |colon| colon + "://".len());
    let (_, rest) = url.split_at(authority_at);
    authority_at + rest.find(['/', '?', '#']).unwrap_or(rest.len())
}

/// One spelling for authorities that mean the same: lower case, IPv6 addresses as short as they can
/// be.
pub fn normal_authority(authority: &str) -> String {
    let host = host_of(authority);
    match ipv6(host) {
        Some(address) => format!("[{address}]{}", authority.strip_prefix(host).unwrap_or_default()),
        None => authority.to_ascii_lowercase(),
    }
}

/// The address in brackets.
fn ipv6(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The host of an authority. Colons inside brackets are part of an address.
fn host_of(authority: &str) -> &str {
    let end = match authority.find(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    authority.split_at(end).0
}

/// RFC 3986 §3.2.2, `reg-name`.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte)
}

/// RFC 3986 §5.2.4, for a path that begins with a slash.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_cut_where_http_does() {
        for (text, scheme, authority, path) in [
            ("https://a.example/b/c?d=e", "https", "a.example", "/b/c?d=e"),
            ("http://127.0.0.1:8080", "http", "127.0.0.1:8080", "/"),
            ("https://[::1]:1/", "https", "[::1]:1", "/"),
        ] {
            let url = HttpUrl::parse(text).unwrap();
            assert_eq!((url.scheme(), url.authority()), (scheme, authority));
            assert_eq!(url.path_and_query(), path);
        }
        for bad in [
            "",
            "a.example/b",
            "/b",
            "ftp://a.example/",
            "https:///b",
            "https://user@a.example/",
            "https://a.example/#b",
            "https://a.example?b",
            "https://a.example/b c",
            "https://a.example/\u{e9}",
            "https://a.example:port/",
            "https://a.example:65536/",
            "https://[::1/",
            "https://[::1]x/",
            "https://[a.example]/",
            "https://",
        ] {
            assert!(HttpUrl::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_may_have_capitals_and_errors_say_what_to_write() {
        let url = HttpUrl::parse_setting("HTTPS://Leader.Example:8443/Path?Query").unwrap();
        assert_eq!(url.as_str(), "https://leader.example:8443/Path?Query");
        for (text, error) in [
            ("ftp://A.example/", UrlError::Scheme),
            ("https://user:password@a.example/", UrlError::User),
            ("https://b\u{fc}cher.example/", UrlError::International),
            ("https://:80/", UrlError::Authority),
            ("https://a.example#b", UrlError::Fragment),
            ("https://a.example/\u{e9}", UrlError::Character),
        ] {
            assert_eq!(HttpUrl::parse_setting(text), Err(error), "{text}");
        }
        for literal in ["HTTPS://a.example/", "Http://a.example/"] {
            assert_eq!(HttpUrl::parse(literal), Err(UrlError::Scheme), "{literal}");
        }
        assert_eq!(HttpUrl::parse("https://A.example/").unwrap().authority(), "A.example");
    }

    #[test]
    fn references_are_resolved() {
        let base = HttpUrl::parse("https://a.example/b/c?d").unwrap();
        for (reference, url) in [
            ("e", "https://a.example/b/e"),
            ("/e?f=g", "https://a.example/e?f=g"),
            ("?f", "https://a.example/b/c?f"),
            ("", "https://a.example/b/c?d"),
            ("../e", "https://a.example/e"),
            ("../../../e/./", "https://a.example/e/"),
            ("./..", "https://a.example/"),
            ("e:80/f", ""),
            ("//other.example", "https://other.example/"),
            ("http://a.example/e", "http://a.example/e"),
            ("e#fragment", "https://a.example/b/e"),
        ] {
            let found = base.join(reference).map_or(String::new(), |url| url.to_string());
            assert_eq!(found, url, "{reference}");
        }
    }

    #[test]
    fn plain_http_is_exposed_unless_it_stays_on_the_machine() {
        for (text, is_exposed) in [
            ("http://localhost:80/", false),
            ("http://127.0.0.1/", false),
            ("http://[::1]:80/", false),
            ("https://a.example/", false),
            ("http://a.example/", true),
            ("http://localhost.example/", true),
            ("http://192.0.2.1:80/", true),
        ] {
            assert_eq!(HttpUrl::parse(text).unwrap().is_exposed(), is_exposed, "{text}");
        }
    }

    #[test]
    fn one_origin_has_many_spellings() {
        let url = |text| HttpUrl::parse(text).unwrap();
        assert!(url("https://[::1]/").is_same_origin(&url("https://[0:0:0:0:0:0:0:1]:443/")));
        let plain = url("https://a.example/b");
        for same in ["https://A.example:443/c", "https://a.example:/"] {
            assert!(plain.is_same_origin(&url(same)), "{same}");
        }
        for other in ["http://a.example/b", "https://a.example:80/b", "https://b.example/b"] {
            assert!(!plain.is_same_origin(&url(other)), "{other}");
        }
        assert_eq!(plain.below("c/d").unwrap().as_str(), "https://a.example/b/c/d");
        let stepped = plain.with_parameter("step", "0").unwrap();
        assert_eq!(stepped.as_str(), "https://a.example/b?step=0");
        assert!(stepped.has_parameter("step") && !plain.has_parameter("step"));
        assert!(!url("https://a.example/?steps=0").has_parameter("step"));
    }
}
