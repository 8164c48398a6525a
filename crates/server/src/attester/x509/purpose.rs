//! What certificates of a manufacturer must be for. An authority may certify other things than
//! devices, with subjects that look like devices: each of them would be a device here.

use sotto_protocol::Fault;
use x509_parser::asn1_rs::{FromDer, Oid, oid};
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::{
    OID_X509_EXT_CERTIFICATE_POLICIES, OID_X509_EXT_EXTENDED_KEY_USAGE,
};
use x509_parser::prelude::X509Certificate;

const CLIENT_AUTH: Oid<'static> = oid!(1.3.6.1.5.5.7.3.2);
const ANY_USAGE: Oid<'static> = oid!(2.5.29.37.0);
const ANY_POLICY: Oid<'static> = oid!(2.5.29.32.0);

/// What the manufacturer states in the certificates of its devices, and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// An extended key usage (RFC 5280 §4.2.1.12). The device's certificate names it itself;
    /// intermediate certificates name it, allow any, or do not restrict usages.
    Usage(Oid<'static>),
    /// A certificate policy (RFC 5280 §4.2.1.4). The device's certificate names it itself;
    /// intermediate certificates name it or `anyPolicy`: one without policies ends all of them
    /// (§6.1.3). Mappings of policies are not followed.
    Policy(Oid<'static>),
    /// Nothing: every certificate under the roots that is not for something else is a device.
    InsecureAny,
}

impl Purpose {
    /// An extended key usage, as numbers with dots.
    pub fn usage(oid: &str) -> Result<Self, Fault> {
        parse(oid).map(Self::Usage)
    }

    /// A certificate policy, as numbers with dots.
    pub fn policy(oid: &str) -> Result<Self, Fault> {
        parse(oid).map(Self::Policy)
    }

    /// Whether a path that is otherwise valid is for this purpose: the certificates below the root,
    /// the device's own first.
    pub(super) fn fits<'a>(&self, mut path: impl Iterator<Item = &'a [u8]>) -> bool {
        let Some(leaf) = path.next() else { return false };
        self.fits_device(leaf).unwrap_or(false)
            && path.all(|authority| self.fits_authority(authority).unwrap_or(false))
    }

    /// `None` if the certificate or an extension does not decode.
    fn fits_device(&self, certificate: &[u8]) -> Option<bool> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        Some(match self {
            Self::Usage(usage) => usages(&certificate)?.is_some_and(|all| all.contains(usage)),
            Self::Policy(policy) => {
                identifies_clients(&certificate)? && policies(&certificate)?.contains(policy)
            }
            Self::InsecureAny => identifies_clients(&certificate)?,
        })
    }

    fn fits_authority(&self, certificate: &[u8]) -> Option<bool> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        Some(match self {
            Self::Usage(usage) => allows(&certificate, usage)?,
            Self::Policy(policy) => {
                let policies = policies(&certificate)?;
                identifies_clients(&certificate)?
                    && (policies.contains(policy) || policies.contains(&ANY_POLICY))
            }
            Self::InsecureAny => identifies_clients(&certificate)?,
        })
    }
}

fn parse(text: &str) -> Result<Oid<'static>, Fault> {
    let oid = text.parse::<Oid<'static>>();
    oid.map_err(|_| Fault(format!("{text:?} is not an object identifier like 1.3.6.1.4.1.1")))
}

/// Whether the usages are not restricted, or include that of clients.
fn identifies_clients(certificate: &X509Certificate<'_>) -> Option<bool> {
    allows(certificate, &CLIENT_AUTH)
}

/// Whether the usages are not restricted, or include this one or any.
fn allows(certificate: &X509Certificate<'_>, usage: &Oid<'_>) -> Option<bool> {
    let allows = |all: Vec<Oid<'_>>| all.contains(usage) || all.contains(&ANY_USAGE);
    Some(usages(certificate)?.is_none_or(allows))
}

/// The extended key usages, if they are restricted.
fn usages<'a>(certificate: &'a X509Certificate<'_>) -> Option<Option<Vec<Oid<'a>>>> {
    let extension = certificate.get_extension_unique(&OID_X509_EXT_EXTENDED_KEY_USAGE).ok()?;
    let Some(extension) = extension else { return Some(None) };
    let (_, all) = Vec::<Oid<'a>>::from_der(extension.value).ok()?;
    Some(Some(all))
}

fn policies<'a>(certificate: &'a X509Certificate<'_>) -> Option<Vec<Oid<'a>>> {
    let extension = certificate.get_extension_unique(&OID_X509_EXT_CERTIFICATE_POLICIES).ok()?;
    let Some(extension) = extension else { return Some(Vec::new()) };
    match extension.parsed_extension() {
        ParsedExtension::CertificatePolicies(all) => {
            Some(all.iter().map(|information| information.policy_id.clone()).collect())
        }
        _ => None,
    }
}
