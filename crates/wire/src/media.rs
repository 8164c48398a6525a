//! Media types of message bodies (DAP "Media Types").

/// The media type of one message: `application/ppm-dap` with its `message` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// [`HpkeConfigList`](crate::HpkeConfigList).
    HpkeConfigList,
    /// [`UploadRequest`](crate::UploadRequest).
    UploadReq,
    /// [`UploadErrors`](crate::UploadErrors).
    UploadErrors,
    /// [`CollectionJobReq`](crate::CollectionJobReq).
    CollectionJobReq,
    /// [`CollectionJobResp`](crate::CollectionJobResp).
    CollectionJobResp,
    /// [`AggregationJobInitReq`](crate::AggregationJobInitReq).
    AggregationJobInitReq,
    /// [`AggregationJobContinueReq`](crate::AggregationJobContinueReq).
    AggregationJobContinueReq,
    /// [`AggregationJobResp`](crate::AggregationJobResp).
    AggregationJobResp,
    /// [`AggregateShareReq`](crate::AggregateShareReq).
    AggregateShareReq,
    /// [`AggregateShare`](crate::AggregateShare).
    AggregateShare,
}

/// The version parameter that a peer may add while the protocol is a draft.
const VERSION: &str = "18";

impl MediaType {
    /// Every media type.
    pub const ALL: [Self; 10] = [
        Self::HpkeConfigList,
        Self::UploadReq,
        Self::UploadErrors,
        Self::CollectionJobReq,
        Self::CollectionJobResp,
        Self::AggregationJobInitReq,
        Self::AggregationJobContinueReq,
        Self::AggregationJobResp,
        Self::AggregateShareReq,
        Self::AggregateShare,
    ];

    /// The value of a `Content-Type` header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HpkeConfigList => "application/ppm-dap;message=hpke-config-list",
            Self::UploadReq => "application/ppm-dap;message=upload-req",
            Self::UploadErrors => "application/ppm-dap;message=upload-errors",
            Self::CollectionJobReq => "application/ppm-dap;message=collection-job-req",
            Self::CollectionJobResp => "application/ppm-dap;message=collection-job-resp",
            Self::AggregationJobInitReq => "application/ppm-dap;message=aggregation-job-init-req",
            Self::AggregationJobContinueReq => {
                "application/ppm-dap;message=aggregation-job-continue-req"
            }
            Self::AggregationJobResp => "application/ppm-dap;message=aggregation-job-resp",
            Self::AggregateShareReq => "application/ppm-dap;message=aggregate-share-req",
            Self::AggregateShare => "application/ppm-dap;message=aggregate-share",
        }
    }

    /// Whether a `Content-Type` header names this message.
    ///
    /// Type and parameter names are compared case-insensitively, parameters may come in any order,
    /// values may be quoted, and unknown parameters are ignored. A `version` must be ours.
    pub fn matches(self, header: &str) -> bool {
        Self::parse(header) == Some(self)
    }

    /// The message that a `Content-Type` header names.
    pub fn parse(header: &str) -> Option<Self> {
        let message = message_of(header)?;
        Self::ALL.into_iter().find(|media_type| {
            let (_, own) = media_type.as_str().split_once('=').unwrap_or_default();
            own == message
        })
    }
}

/// The value of `message`, if `header` is well formed (RFC 9110 §8.3.1) and has our type and
/// version.
fn message_of(header: &str) -> Option<String> {
    let (essence, mut rest) = match header.split_once(';') {
        Some((essence, rest)) => (essence, rest),
        None => (header, ""),
    };
    if !trim(essence).eq_ignore_ascii_case("application/ppm-dap") {
        return None;
    }
    let (mut message, mut version) = (None, None);
    loop {
        rest = trim(rest);
        if rest.is_empty() {
            break;
        }
        // An empty parameter, as in "a;;b" or at the end.
        if let Some(after) = rest.strip_prefix(';') {
            rest = after;
            continue;
        }
        let (name, value, after) = parameter(rest)?;
        rest = match trim(after) {
            "" => "",
            more => more.strip_prefix(';')?,
        };
        let slot = match name.to_ascii_lowercase().as_str() {
            "message" => &mut message,
            "version" => &mut version,
            _ => continue,
        };
        // A repeated parameter is ambiguous: another reader may take the other value.
        if slot.replace(value).is_some() {
            return None;
        }
    }
    if version.is_some_and(|version| version != VERSION) {
        return None;
    }
    message
}

/// `name=value` or `name="value"` at the start of `text`, and the text after it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.split_once('=')?;
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return None;
    }
    if let Some(quoted) = rest.strip_prefix('"') {
        let mut value = String::new();
        let mut chars = quoted.chars();
        loop {
            match chars.next()? {
                '"' => return Some((name, value, chars.as_str())),
                '\\' => value.push(chars.next()?),
                other => value.push(other),
            }
        }
    }
    let end = rest.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(rest.len());
    let (value, after) = rest.split_at_checked(end)?;
    if value.is_empty() { None } else { Some((name, value.to_owned(), after)) }
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_names_itself_only() {
        for media_type in MediaType::ALL {
            for other in MediaType::ALL {
                assert_eq!(media_type.matches(other.as_str()), media_type == other);
            }
            assert_eq!(MediaType::parse(media_type.as_str()), Some(media_type));
        }
    }

    #[test]
    fn spellings_of_the_same_type() {
        for header in [
            "application/ppm-dap;message=upload-req",
            "application/ppm-dap; message=upload-req",
            "Application/PPM-DAP ;\tMessage=upload-req ",
            "application/ppm-dap;message=\"upload-req\"",
            "application/ppm-dap;message=\"upload\\-req\"",
            "application/ppm-dap;version=18;message=upload-req",
            "application/ppm-dap;message=upload-req;version=\"18\"",
            "application/ppm-dap;message=upload-req;",
            "application/ppm-dap;x=\";message=\";message=upload-req",
        ] {
            assert!(MediaType::UploadReq.matches(header), "{header}");
        }
    }

    #[test]
    fn other_headers_are_refused() {
        for header in [
            "",
            "application/ppm-dap",
            "application/ppm-dap;message",
            "application/ppm-dap;message=",
            "application/ppm-dap;message=Upload-Req",
            "application/ppm-dap;message=upload-req;version=17",
            "application/ppm-dap;message=upload-req;message=upload-req",
            "application/ppm-dap;message=upload-req x=y",
            "application/ppm-dap;message=\"upload-req",
            "application/ppm-dap;message=\"upload-req\"x",
            "application/ppm-dap;=upload-req",
            "application/ppm-dap;x=\";message=upload-req",
            "application/dap-report",
            "text/plain;message=upload-req",
        ] {
            assert_eq!(MediaType::parse(header), None, "{header}");
        }
    }
}
