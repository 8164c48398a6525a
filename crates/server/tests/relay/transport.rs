//! TLS on both sides.

use std::sync::Arc;

use reqwest::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sotto_crypto::Secret;
use sotto_server::TlsConfig;
use tokio_rustls::TlsAcceptor;

use crate::background::LOOPBACK;
use crate::relay::gateway::Gateway;
use crate::relay::harness::{AT_ONCE, OPERATOR, Server, config};

struct Certificate {
    pem: String,
    key: String,
}

impl Certificate {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        Self { pem: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        TlsAcceptor::from(Arc::new(server))
    }
}

#[tokio::test]
async fn tls_on_both_sides() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (front, behind) = (Certificate::new(), Certificate::new());
    let gateway = Gateway::listen(LOOPBACK, Some(behind.acceptor())).await;
    let settings = |known: &Certificate| {
        let mut settings = config(&gateway, AT_ONCE);
        settings.gateways[0].url = gateway.url().replace("http:", "https:");
        settings.gateway_certificates = Some(known.pem.clone().into_bytes());
        settings.http.tls = Some(TlsConfig {
            certificate_chain: front.pem.clone().into_bytes(),
            private_key: Secret::new(front.key.clone().into_bytes()),
        });
        settings
    };
    let root = reqwest::Certificate::from_pem(front.pem.as_bytes()).unwrap();
    let device = Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let post = async |relay: &Server| {
        let url = format!("https://{}/{OPERATOR}", relay.addr);
        let request = device.post(url).header("content-type", "message/ohttp-req").body("body");
        request.send().await.unwrap()
    };
    let relay = Server::start(settings(&behind)).await;
    for _ in 0..2 {
        let answer = post(&relay).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.text().await.unwrap(), "answer");
    }
    assert_eq!(gateway.bodies(), [b"body", b"body"]);
    // Plain HTTP at the TLS port is not answered.
    let url = format!("http://{}/{OPERATOR}", relay.addr);
    assert!(device.post(url).body("body").send().await.is_err());
    relay.stopped().await;
    // A gateway with a certificate of another authority gets nothing.
    let relay = Server::start(settings(&front)).await;
    assert_eq!(post(&relay).await.status(), 502);
    assert_eq!(gateway.recorded().len(), 2);
    relay.stopped().await;
}
