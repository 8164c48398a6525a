//! The gateway's cryptography: open, decode, judge, answer.
//!
//! The floor is opening an HPKE message of the same length, which every gateway must do. The peer
//! does less: it checks neither dates nor replays, and its answer is padded to the same length
//! here.

use std::hint::black_box;
use std::io::Cursor;

use anyhow::{Context, Result};
use ohttp::hpke::{Aead, Kdf, Kem};
use ohttp::{KeyConfig, Server, SymmetricSuite};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_crypto::hpke::Suite;
use sotto_crypto::server_hpke::Opener;
use sotto_crypto::{HpkeKeypair, ohttp as encapsulation, server_hpke};
use sotto_protocol::Moment;
use sotto_protocol::gateway::{GatewayKeyring, ReplayWindow, consume_request};
use sotto_protocol::http_date::rounded_date;
use sotto_wire::bhttp::{Field, Request, Response};
use sotto_wire::ohttp::{
    RESPONSE_LABEL, RESPONSE_OVERHEAD, request_header, request_info, request_overhead,
};
use sotto_wire::size_class::SizeClass;
use sotto_wire::{HpkeCiphertext, HpkeConfigId, MediaType};

use crate::turns::least;

/// The number of requests in one measurement: few enough that it is rarely interrupted.
const BATCH: usize = 16;
const KEY_ID: u8 = 1;
pub(super) const NOW: Moment = Moment(1_800_000_000);

/// Microseconds per request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) suite: Suite,
    pub(super) name: &'static str,
    /// The length of the encapsulated request.
    pub(super) bytes: usize,
    /// HPKE, one message.
    pub(super) floor_us: f64,
    /// HPKE, one message and one exported secret.
    pub(super) export_us: f64,
    pub(super) ours_us: f64,
    pub(super) peer_us: f64,
}

/// Measures requests as devices make them, and without the padding.
pub(super) fn measure(times: usize) -> Result<Vec<Opening>> {
    let suites = [Suite::X25519, Suite::Hybrid].map(|suite| measure_suite(suite, times));
    Ok(suites.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

fn measure_suite(suite: Suite, times: usize) -> Result<Vec<Opening>> {
    let gateway = Gateway::new(suite)?;
    [
        ("6 KB", 6_000, false),
        ("6 KB, padded", 6_000, true),
        ("20 KB", 20_000, false),
        ("20 KB, padded", 20_000, true),
    ]
    .into_iter()
    .map(|(name, len, padded)| gateway.measure(name, &gateway.requests(len, padded)?, times))
    .collect()
}

/// The two gateways, with one key.
struct Gateway {
    suite: Suite,
    keypair: HpkeKeypair,
    opener: Opener,
    keys: GatewayKeyring,
    peer: Server,
}

/// Requests to it, and HPKE messages of the same lengths.
struct Requests {
    encapsulated: Vec<Vec<u8>>,
    sealed: Vec<HpkeCiphertext<'static>>,
    info: Vec<u8>,
}

impl Gateway {
    fn new(suite: Suite) -> Result<Self> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut ikm = [0; 32];
        rng.clone().fill_bytes(&mut ikm);
        let keypair = HpkeKeypair::generate_for(suite, HpkeConfigId::new(KEY_ID), &mut rng);
        let kem = match suite {
            Suite::X25519 => Kem::X25519Sha256,
            Suite::Hybrid => Kem::XWing,
        };
        let symmetric = SymmetricSuite::new(Kdf::HkdfSha256, Aead::Aes128Gcm);
        // Both derive the key from the same bytes.
        let config = KeyConfig::derive(KEY_ID, kem, vec![symmetric], &ikm)?;
        Ok(Self {
            suite,
            opener: Opener::new(&keypair)?,
            keys: GatewayKeyring::new(std::slice::from_ref(&keypair))?,
            peer: Server::new(config)?,
            keypair,
        })
    }

    /// Uploads with this many bytes of content.
    fn requests(&self, len: usize, padded: bool) -> Result<Requests> {
        let mut rng = ChaCha20Rng::seed_from_u64(len as u64);
        let config = self.keypair.config();
        let info = request_info(&request_header(config)).to_vec();
        let date = rounded_date(NOW);
        let mut content = vec![0; len];
        let mut requests = Requests { encapsulated: Vec::new(), sealed: Vec::new(), info };
        for _ in 0..BATCH {
            rng.fill_bytes(&mut content);
            let request = upload(&date, &content);
            let unpadded = request.encoded_len();
            let overhead = request_overhead(config);
            let class = SizeClass::holding(unpadded + overhead).context("too long")?;
            let len = if padded { class.bytes() - overhead } else { unpadded };
            let message = request.to_padded(len).context("too long")?;
            let (body, _) = encapsulation::seal_request(config, &message, &mut rng)?;
            requests.encapsulated.push(body);
            let info = &requests.info;
            requests.sealed.push(server_hpke::seal(config, info, b"", &message, &mut rng)?);
        }
        Ok(requests)
    }

    fn measure(&self, name: &'static str, requests: &Requests, times: usize) -> Result<Opening> {
        let Requests { encapsulated, sealed, info } = requests;
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let seconds = least(
            times,
            [
                &mut || sealed.iter().try_for_each(|sealed| self.open(info, sealed)),
                &mut || sealed.iter().try_for_each(|sealed| self.open_and_export(info, sealed)),
                &mut || self.answer(encapsulated, &mut rng),
                &mut || encapsulated.iter().try_for_each(|body| self.answer_as_peer(body)),
            ],
        )?;
        let [floor_us, export_us, ours_us, peer_us] = seconds.map(|s| s * 1e6 / BATCH as f64);
        let bytes = encapsulated.first().map_or(0, Vec::len);
        Ok(Opening { suite: self.suite, name, bytes, floor_us, export_us, ours_us, peer_us })
    }

    fn open(&self, info: &[u8], sealed: &HpkeCiphertext<'_>) -> Result<()> {
        black_box(self.opener.open(info, b"", sealed)?);
        Ok(())
    }

    fn open_and_export(&self, info: &[u8], sealed: &HpkeCiphertext<'_>) -> Result<()> {
        let mut receiver = self.opener.setup_receiver(sealed.enc(), info)?;
        black_box(receiver.open(b"", sealed.payload())?);
        black_box(receiver.export(RESPONSE_LABEL.as_bytes(), 16)?);
        Ok(())
    }

    /// Handles all requests, at a gateway that has seen none of them before.
    fn answer(&self, encapsulated: &[Vec<u8>], rng: &mut ChaCha20Rng) -> Result<()> {
        let mut window = ReplayWindow::new(1_800, 1_000, [7; 16]);
        for body in encapsulated {
            let opened = consume_request(&self.keys, body)?;
            let request = opened.decode()?;
            window.admit(&opened, &request, NOW)?;
            black_box(request.content.len());
            let (_, responder) = opened.into_parts();
            black_box(responder.respond(&accepted(), rng)?);
        }
        Ok(())
    }

    fn answer_as_peer(&self, body: &[u8]) -> Result<()> {
        let (message, responder) = self.peer.decapsulate(body)?;
        let request = bhttp::Message::read_bhttp(&mut Cursor::new(message.as_slice()))?;
        black_box(request.content().len());
        let mut answer = Vec::with_capacity(answer_len());
        let status = bhttp::StatusCode::try_from(200_u64)?;
        bhttp::Message::response(status).write_bhttp(bhttp::Mode::KnownLength, &mut answer)?;
        answer.resize(answer_len(), 0);
        black_box(responder.encapsulate(&answer)?);
        Ok(())
    }
}

/// An upload as a device sends it.
pub(super) fn upload<'a>(date: &'a str, content: &'a [u8]) -> Request<'a> {
    let media_type = MediaType::UploadReq.as_str();
    Request {
        method: "POST",
        scheme: "https",
        authority: "leader.example",
        path: "/tasks/8BY0RzZMzxvA46_8ymhzycOB9krN-QIGYvg_RsByGec/reports",
        fields: vec![
            Field { name: "date", value: date.as_bytes() },
            Field { name: "content-type", value: media_type.as_bytes() },
        ],
        content: content.into(),
        trailers: Vec::new(),
    }
}

/// The answer to an upload.
fn accepted() -> Response<'static> {
    Response {
        informational: Vec::new(),
        status: 200,
        fields: Vec::new(),
        content: Default::default(),
        trailers: Vec::new(),
    }
}

/// The bytes that the smallest class has for an answer.
fn answer_len() -> usize {
    SizeClass::holding(0).map_or(0, SizeClass::bytes) - RESPONSE_OVERHEAD
}
