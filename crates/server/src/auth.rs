//! Authentication between parties: a token per task and peer, as `Authorization: Bearer` or
//! `DAP-Auth-Token` (DAP, "Request Authentication"; older peers send the second form).
//!
//! Comparison takes constant time, and a refusal reveals nothing about the expected token.

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use sotto_crypto::Secret;

use crate::problem::Failure;

/// The header that older peers send.
const DAP_AUTH_TOKEN: HeaderName = HeaderName::from_static("dap-auth-token");

/// How a token is sent. Both forms are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthScheme {
    /// `Authorization: Bearer TOKEN`.
    Bearer,
    /// `DAP-Auth-Token: TOKEN`.
    DapAuthToken,
}

/// The text is empty or contains a character that is not allowed in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an authentication token is one or more visible ASCII characters")]
pub struct InvalidToken;

/// A secret that a peer must send.
#[derive(Debug)]
pub struct AuthToken {
    scheme: AuthScheme,
    token: Secret<String>,
}

impl AuthToken {
    /// Checks that the token is allowed in a header.
    pub fn new(scheme: AuthScheme, token: impl Into<String>) -> Result<Self, InvalidToken> {
        let token = Secret::new(token.into());
        let visible = token.expose().bytes().all(|byte| byte.is_ascii_graphic());
        if token.expose().is_empty() || !visible {
            return Err(InvalidToken);
        }
        Ok(Self { scheme, token })
    }

    /// A token sent as `Authorization: Bearer`.
    pub fn bearer(token: impl Into<String>) -> Result<Self, InvalidToken> {
        Self::new(AuthScheme::Bearer, token)
    }

    /// Whether both are the same secret, whatever the form in which they are sent.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.token == other.token
    }

    /// Lets a request pass that carries one of these tokens. All are compared, so that the time does
    /// not reveal which one matches.
    pub(crate) fn check_any<'a>(
        tokens: impl IntoIterator<Item = &'a Self>,
        headers: &HeaderMap,
    ) -> Result<(), Failure> {
        let checks: Vec<_> = tokens.into_iter().map(|token| token.check(headers)).collect();
        let refused = checks.into_iter().reduce(|one, other| one.or(other));
        refused.unwrap_or(Err(Failure::Forbidden))
    }

    /// The header that sends this token to a peer. It is marked as sensitive, so that it is neither
    /// printed nor put into a compression table.
    pub(crate) fn header(&self) -> Result<(HeaderName, HeaderValue), InvalidToken> {
        let (name, mut value) = match self.scheme {
            AuthScheme::Bearer => {
                let value = Secret::new(format!("Bearer {}", self.token.expose()));
                (AUTHORIZATION, HeaderValue::from_str(value.expose()))
            }
            AuthScheme::DapAuthToken => {
                (DAP_AUTH_TOKEN, HeaderValue::from_str(self.token.expose()))
            }
        };
        if let Ok(value) = &mut value {
            value.set_sensitive(true);
        }
        Ok((name, value.map_err(|_| InvalidToken)?))
    }

    /// Lets a request pass that carries this token.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let shown = [bearer(headers), headers.get(DAP_AUTH_TOKEN).map(HeaderValue::as_bytes)];
        if shown.iter().flatten().any(|shown| self.token.ct_eq(shown)) {
            Ok(())
        } else if shown.iter().all(Option::is_none) {
            Err(Failure::Unauthenticated)
        } else {
            Err(Failure::Forbidden)
        }
    }
}

/// The token of an `Authorization: Bearer` header (RFC 6750; the scheme is case-insensitive).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let name = |name: &str| HeaderName::try_from(name).unwrap();
        pairs.iter().map(|(key, value)| (name(key), value.parse().unwrap())).collect()
    }

    #[test]
    fn both_forms_are_accepted_and_nothing_else() {
        let token = AuthToken::bearer("s3cret").unwrap();
        for good in [
            headers(&[("authorization", "Bearer s3cret")]),
            headers(&[("authorization", "bearer s3cret")]),
            headers(&[("dap-auth-token", "s3cret")]),
            headers(&[("authorization", "Basic eDp5"), ("dap-auth-token", "s3cret")]),
        ] {
            assert!(token.check(&good).is_ok(), "{good:?}");
        }
        for absent in [headers(&[]), headers(&[("authorization", "Basic czNjcmV0")])] {
            assert!(matches!(token.check(&absent), Err(Failure::Unauthenticated)), "{absent:?}");
        }
        for wrong in [
            headers(&[("authorization", "Bearer s3cre")]),
            headers(&[("authorization", "Bearer s3crett")]),
            headers(&[("authorization", "Bearer S3cret")]),
            headers(&[("authorization", "Bearer ")]),
            headers(&[("dap-auth-token", "Bearer s3cret")]),
        ] {
            assert!(matches!(token.check(&wrong), Err(Failure::Forbidden)), "{wrong:?}");
        }
    }

    #[test]
    fn a_token_travels_in_its_own_form_and_is_never_shown() {
        for (scheme, name, value) in [
            (AuthScheme::Bearer, "authorization", "Bearer s3cret"),
            (AuthScheme::DapAuthToken, "dap-auth-token", "s3cret"),
        ] {
            let token = AuthToken::new(scheme, "s3cret").unwrap();
            let header = token.header().unwrap();
            assert_eq!(header.0, name);
            assert_eq!(header.1.to_str().unwrap(), value);
            assert!(header.1.is_sensitive());
            assert!(!format!("{token:?} {header:?}").contains("s3cret"));
        }
        for bad in ["", "with space", "new\nline", "ümlaut"] {
            assert!(AuthToken::bearer(bad).is_err(), "{bad:?}");
        }
    }
}
