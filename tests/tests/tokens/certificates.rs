//! A manufacturer and its devices' certificates.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use sotto_client::DeviceCertificate;

/// The table of this manufacturer in an attester's configuration.
pub(crate) const TABLE: &str = "[[x509.manufacturers]]\nname = \"Example\"\n\
    roots = [\"manufacturer.pem\"]\nextended_key_usage = \"1.3.6.1.4.1.32473.1.1\"\n";

/// The usage that it gives to devices and to nothing else.
const USAGE: [u64; 9] = [1, 3, 6, 1, 4, 1, 32473, 1, 1];

/// A certification authority.
pub(crate) struct Manufacturer {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub(crate) pem: String,
}

/// A device's certificate.
pub(crate) struct Badge {
    pem: String,
    key: KeyPair,
    pub(crate) der: Vec<u8>,
}

impl Manufacturer {
    pub(crate) fn new() -> Self {
        let mut params = params("a manufacturer");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate with this serial number, for the device with this number.
    pub(crate) fn badge(&self, device: &str, serial: u64) -> Badge {
        let mut params = params("a device");
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 5]), device);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Other(USAGE.into())];
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Badge { pem: certificate.pem(), der: certificate.der().to_vec(), key }
    }

    /// The revocation list of these certificates.
    pub(crate) fn crl(&self, revoked: &[u64]) -> String {
        let revoked = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

impl Badge {
    /// What signs the device's requests.
    pub(crate) fn attestor(&self) -> DeviceCertificate {
        DeviceCertificate::from_pem(self.pem.as_bytes(), &self.key.serialize_pem()).unwrap()
    }

    /// The public key in the certificate.
    pub(crate) fn public_key(&self) -> &[u8] {
        self.key.public_key_raw()
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    params
}
