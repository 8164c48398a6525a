//! Token requests that an attester forwards together, and the issuer's answers in the same order.
//!
//! Rate-limited issuance sends them one by one. Together they cost one round trip and one durable
//! write, and the issuer learns less about when each was made.

use std::fmt;

use super::{MAX_TOKEN_BATCH, ShortOpaque};
use crate::codec::{BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u16};

/// Encoded [`TokenRequest`](super::TokenRequest)s: at least one, at most [`MAX_TOKEN_BATCH`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequestBatch<'a>(Vec<ShortOpaque<'a>>);

impl<'a> TokenRequestBatch<'a> {
    /// Checks the number of requests.
    pub fn new(requests: Vec<ShortOpaque<'a>>) -> Result<Self, BoundsError> {
        check_count(requests.len())?;
        Ok(Self(requests))
    }

    /// The requests, not decoded: an invalid one must not invalidate the others.
    pub fn requests(&self) -> &[ShortOpaque<'a>] {
        &self.0
    }
}

impl Encode for TokenRequestBatch<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.0.encode(out);
    }
}

impl<'a> Decode<'a> for TokenRequestBatch<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Self::new(values(reader)?).map_err(DecodeError::from)
    }
}

/// The issuer's answer to one request.
#[derive(Clone, PartialEq, Eq)]
pub enum IssuerAnswer {
    /// The token is signed.
    Issued {
        /// The request key, blinded by the origin's secret.
        index_key: [u8; 32],
        /// How many tokens a client gets.
        limit: u64,
        /// The encrypted token response, at most 2^16-1 bytes.
        response: Vec<u8>,
    },
    /// The request was rejected.
    Refused {
        /// The HTTP status that the request would have received alone.
        status: u16,
    },
}

impl fmt::Debug for IssuerAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issued { limit, .. } => {
                f.debug_struct("Issued").field("limit", limit).finish_non_exhaustive()
            }
            Self::Refused { status } => f.debug_struct("Refused").field("status", status).finish(),
        }
    }
}

impl IssuerAnswer {
    /// For a batch, which has checked that the response fits.
    fn encode(&self, out: &mut impl Sink) {
        match self {
            Self::Issued { index_key, limit, response } => {
                out.push(0);
                out.extend_from_slice(index_key);
                out.extend_from_slice(&limit.to_be_bytes());
                put_opaque_u16(out, response);
            }
            Self::Refused { status } => {
                out.push(1);
                out.extend_from_slice(&status.to_be_bytes());
            }
        }
    }
}

impl Decode<'_> for IssuerAnswer {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self::Issued {
                index_key: reader.array()?,
                limit: reader.u64()?,
                response: reader.opaque_u16()?.to_vec(),
            }),
            1 => Ok(Self::Refused { status: reader.u16()? }),
            value => Err(DecodeError::UnknownValue { field: "IssuerAnswer", value }),
        }
    }
}

/// The answers to a [`TokenRequestBatch`], in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerAnswerBatch(Vec<IssuerAnswer>);

impl IssuerAnswerBatch {
    /// Checks the number of answers, and the length of each response.
    pub fn new(answers: Vec<IssuerAnswer>) -> Result<Self, BoundsError> {
        check_count(answers.len())?;
        let fits = |answer: &IssuerAnswer| match answer {
            IssuerAnswer::Issued { response, .. } => u16::try_from(response.len()).is_ok(),
            IssuerAnswer::Refused { .. } => true,
        };
        if answers.iter().all(fits) {
            Ok(Self(answers))
        } else {
            Err(BoundsError::Length("response"))
        }
    }

    /// The answers.
    pub fn answers(&self) -> &[IssuerAnswer] {
        &self.0
    }

    /// The answers, as owned values.
    pub fn into_answers(self) -> Vec<IssuerAnswer> {
        self.0
    }
}

impl Encode for IssuerAnswerBatch {
    fn encode(&self, out: &mut impl Sink) {
        self.0.iter().for_each(|answer| answer.encode(out));
    }
}

impl Decode<'_> for IssuerAnswerBatch {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::new(values(reader)?).map_err(DecodeError::from)
    }
}

fn check_count(count: usize) -> Result<(), BoundsError> {
    if (1..=MAX_TOKEN_BATCH).contains(&count) { Ok(()) } else { Err(BoundsError::Length("batch")) }
}

/// Values up to the end of the input, but no more than a batch may have: the rest is not read.
fn values<'a, T: Decode<'a>>(reader: &mut Reader<'a>) -> Result<Vec<T>, DecodeError> {
    /// The length of the shortest value.
    const SHORTEST: usize = 3;
    let mut values = Vec::with_capacity((reader.remaining() / SHORTEST).min(MAX_TOKEN_BATCH));
    while !reader.is_empty() {
        if values.len() == MAX_TOKEN_BATCH {
            return Err(BoundsError::Length("batch").into());
        }
        values.push(T::decode(reader)?);
    }
    Ok(values)
}
