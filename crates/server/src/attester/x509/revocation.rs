//! Which revocation lists apply to the certificates of a path.
//!
//! A list belongs to an authority if it has the authority's name and is signed with its key.
//! `webpki` uses the first list with a matching name: an older list before a newer one would hide
//! revocations, and a list of another authority with the same name, or of the same authority before
//! it changed its key, would lock devices out. So this module chooses the lists for each authority
//! of a path: those that its key signed, and for each scope (issuing distribution point) only the
//! newest. `webpki` interprets them.
//!
//! A path with two authorities that have the same name and different keys, both with lists, is
//! rejected: `webpki` cannot be told which list belongs to which.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use sotto_protocol::Fault;
use webpki::{CertRevocationList, OwnedCertRevocationList};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::CERTIFICATE_ALGORITHMS;

/// Authorities whose lists are cached. Manufacturers have few.
const MAX_REMEMBERED: usize = 1024;

/// The lists that an operator provides.
#[derive(Default)]
pub(super) struct RevocationLists {
    lists: Vec<List>,
    /// The lists of an authority, by the hash of its certificate, so that signatures of lists are
    /// checked once.
    chosen: Mutex<HashMap<[u8; 32], Arc<[usize]>>>,
}

struct List {
    list: CertRevocationList<'static>,
    signed: Vec<u8>,
    signature: Vec<u8>,
    age: Age,
}

/// What distinguishes a newer list from an older one (RFC 5280 §5.2.3).
struct Age {
    /// Big endian, without leading zeros.
    number: Option<Vec<u8>>,
    this_update: i64,
}

impl RevocationLists {
    /// Reads PEM.
    pub(super) fn read(pem: &[u8]) -> Result<Self, Fault> {
        let unusable = || Fault("the revocation lists are not PEM revocation lists".into());
        let mut lists = Vec::new();
        for der in CertificateRevocationListDer::pem_slice_iter(pem) {
            let der = der.map_err(|_| unusable())?;
            lists.push(List::read(&der).ok_or_else(unusable)?);
        }
        if lists.is_empty() && !pem.trim_ascii().is_empty() {
            return Err(unusable());
        }
        Ok(Self { lists, chosen: Mutex::default() })
    }

    /// The lists of the authorities that have these certificates: one for each scope.
    pub(super) fn of<'a>(
        &self,
        authorities: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<&CertRevocationList<'static>> {
        let mut indices: Vec<_> =
            authorities.flat_map(|authority| self.of_one(authority).to_vec()).collect();
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().filter_map(|index| Some(&self.lists.get(index)?.list)).collect()
    }

    fn of_one(&self, authority: &[u8]) -> Arc<[usize]> {
        let mut id = [0; 32];
        id.copy_from_slice(digest(&SHA256, authority).as_ref());
        let remembered = || self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = remembered().get(&id) {
            return Arc::clone(known);
        }
        let chosen: Arc<[usize]> = self.choose(authority).into();
        let mut remembered = remembered();
        if remembered.len() < MAX_REMEMBERED {
            remembered.insert(id, Arc::clone(&chosen));
        }
        chosen
    }

    fn choose(&self, authority: &[u8]) -> Vec<usize> {
        let Ok((_, authority)) = X509Certificate::from_der(authority) else { return Vec::new() };
        let mut chosen: Vec<(usize, &List)> = Vec::new();
        for (index, list) in self.lists.iter().enumerate() {
            if !list.is_by(&authority) {
                continue;
            }
            match chosen.iter_mut().find(|(_, other)| other.scope() == list.scope()) {
                Some(other) if list.age.is_newer_than(&other.1.age) => *other = (index, list),
                Some(_) => {}
                None => chosen.push((index, list)),
            }
        }
        chosen.into_iter().map(|(index, _)| index).collect()
    }
}

impl List {
    fn read(der: &CertificateRevocationListDer<'_>) -> Option<Self> {
        let list = OwnedCertRevocationList::from_der(der).ok()?;
        let (_, parsed) = CertificateRevocationList::from_der(der).ok()?;
        Some(Self {
            list: list.into(),
            signed: parsed.tbs_cert_list.as_ref().to_vec(),
            signature: parsed.signature_value.data.to_vec(),
            age: Age {
                number: parsed.crl_number().map(|number| number.to_bytes_be()),
                this_update: parsed.last_update().timestamp(),
            },
        })
    }

    fn scope(&self) -> Option<&[u8]> {
        self.list.issuing_distribution_point()
    }

    /// Whether the authority signed it. `webpki` checks again that the algorithm fits the list and
    /// the key.
    fn is_by(&self, authority: &X509Certificate<'_>) -> bool {
        let key = &authority.public_key().subject_public_key.data;
        is_content_of(authority.subject().as_raw(), self.list.issuer())
            && CERTIFICATE_ALGORITHMS.iter().any(|algorithm| {
                algorithm.verify_signature(key, &self.signed, &self.signature).is_ok()
            })
    }
}

impl Age {
    fn is_newer_than(&self, other: &Self) -> bool {
        let numbers = self.number.as_ref().zip(other.number.as_ref());
        match numbers.map(|(own, other)| (own.len(), own).cmp(&(other.len(), other))) {
            None | Some(std::cmp::Ordering::Equal) => self.this_update > other.this_update,
            Some(order) => order.is_gt(),
        }
    }
}

/// Whether `content` is the content of the sequence `name`: `webpki` keeps names without their
/// header.
fn is_content_of(name: &[u8], content: &[u8]) -> bool {
    // A header has at least two bytes, so that an empty name has nothing else.
    name.len() >= content.len() + 2 && name.ends_with(content) && {
        let header_len = name.len() - content.len();
        header_len == if content.len() < 0x80 { 2 } else { 2 + len_bytes(content.len()) }
    }
}

/// The bytes of a long-form length in DER.
fn len_bytes(len: usize) -> usize {
    (usize::BITS - len.leading_zeros()).div_ceil(8) as usize
}
