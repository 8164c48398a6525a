//! The two suites side by side: microseconds on one thread, and bytes by size class.

use std::hint::black_box;

use anyhow::{Context, Result, anyhow};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde::Serialize;
use sotto_crypto::hpke::Suite;
use sotto_crypto::rate_limited::{Labels, seal_labelled};
use sotto_crypto::server_hpke::Opener;
use sotto_crypto::{HpkeKeypair, hpke, ohttp as encapsulation};
use sotto_protocol::client::produce_report;
use sotto_protocol::http_date::rounded_date;
use sotto_protocol::recipe::derive_task;
use sotto_protocol::token::ReportTokens;
use sotto_testing::recipe::{recipe_at, set_query};
use sotto_vdaf::Measurement;
use sotto_wire::ohttp::request_overhead;
use sotto_wire::recipe::Query;
use sotto_wire::size_class::SizeClass;
use sotto_wire::{HpkeConfigId, ReportId};

use super::gateway::{NOW, upload};
use crate::turns::least;
use crate::workload::suite_name;

/// The number of messages in one measurement.
const BATCH: usize = 16;
/// The length of an encoded token.
pub(super) const TOKEN_LEN: usize = 354;

/// Microseconds per message.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sealing {
    pub(super) suite: &'static str,
    /// A device seals a share.
    pub(super) seal_us: f64,
    /// A server opens it.
    pub(super) open_us: f64,
    /// The device's library opens it.
    pub(super) crate_open_us: f64,
    /// A device encapsulates a padded request to a gateway.
    pub(super) request_us: f64,
    /// A device encapsulates a token request.
    pub(super) token_us: f64,
}

pub(super) fn measure(times: usize) -> Result<Vec<Sealing>> {
    [Suite::X25519, Suite::Hybrid].into_iter().map(|suite| measure_suite(suite, times)).collect()
}

fn measure_suite(suite: Suite, times: usize) -> Result<Sealing> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let keypair = HpkeKeypair::generate_for(suite, HpkeConfigId::new(1), &mut rng);
    let (opener, config) = (Opener::new(&keypair)?, keypair.config());
    let (info, aad, share) = ([1; 20], [2; 200], [3; 1_000]);
    let sealed = hpke::seal(config, &info, &aad, &share, &mut rng)?;
    let request = vec![4; class(1_800, config)?.bytes() - request_overhead(config)];
    let labels = Labels { info: &info, aad: &aad, export: b"label" };
    let [mut one, mut two, mut three] = [2, 3, 4].map(ChaCha20Rng::seed_from_u64);
    let batch = |thing: &mut dyn FnMut() -> Result<()>| (0..BATCH).try_for_each(|_| thing());
    let seconds = least(
        times,
        [
            &mut || {
                batch(&mut || {
                    black_box(hpke::seal(config, &info, &aad, &share, &mut one)?);
                    Ok(())
                })
            },
            &mut || {
                batch(&mut || {
                    black_box(opener.open(&info, &aad, &sealed)?);
                    Ok(())
                })
            },
            &mut || {
                batch(&mut || {
                    black_box(hpke::open(&keypair, &info, &aad, &sealed)?);
                    Ok(())
                })
            },
            &mut || {
                batch(&mut || {
                    black_box(encapsulation::seal_request(config, &request, &mut two)?);
                    Ok(())
                })
            },
            &mut || {
                batch(&mut || {
                    black_box(seal_labelled(config, labels, &share[..323], &mut three)?);
                    Ok(())
                })
            },
        ],
    )?;
    let [seal_us, open_us, crate_open_us, request_us, token_us] =
        seconds.map(|s| s * 1e6 / BATCH as f64);
    let suite = suite_name(suite);
    Ok(Sealing { suite, seal_us, open_us, crate_open_us, request_us, token_us })
}

/// The bytes of one report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Bytes {
    pub(super) report: usize,
    /// The encapsulated request around it.
    pub(super) class: usize,
    /// The same if the classes were 4 KiB times a power of four, as before there were two suites.
    pub(super) class_before: usize,
}

/// A query, and the bytes of a report about it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Size {
    pub(super) query: String,
    pub(super) x25519: Bytes,
    pub(super) hybrid: Bytes,
}

/// Reports with both tokens about histograms of several lengths.
pub(super) fn sizes() -> Result<Vec<Size>> {
    [4, 20, 64, 128, 256, 1_000].into_iter().map(size).collect()
}

fn size(buckets: u32) -> Result<Size> {
    let mut recipe = recipe_at("size", NOW.0);
    let mapping = "region".to_owned();
    set_query(&mut recipe, Query::Histogram { buckets, labels: None, mapping, fallback: 0 });
    let task = derive_task(&recipe).map_err(|reason| anyhow!(reason))?;
    let bytes = |suite| -> Result<Bytes> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let keypair = HpkeKeypair::generate_for(suite, HpkeConfigId::new(1), &mut rng);
        let token = vec![5; TOKEN_LEN];
        let tokens = ReportTokens {
            report_id: ReportId::new([6; 16]),
            leader: token.clone(),
            helper: Some(token),
        };
        let (config, time) = (keypair.config(), task.time(NOW));
        let measurement = Measurement::Histogram(0);
        let report =
            produce_report(&task, config, config, &measurement, time, Some(&tokens), &mut rng)?;
        let class = class(report.len(), config)?.bytes();
        let class_before = if class == 8_192 { 16_384 } else { class };
        Ok(Bytes { report: report.len(), class, class_before })
    };
    let query = format!("histogram of {buckets}");
    Ok(Size { query, x25519: bytes(Suite::X25519)?, hybrid: bytes(Suite::Hybrid)? })
}

/// The class of an upload with this many bytes of content.
fn class(content: usize, config: &sotto_wire::HpkeConfig) -> Result<SizeClass> {
    let (date, content) = (rounded_date(NOW), vec![0; content]);
    let length = upload(&date, &content).encoded_len() + request_overhead(config);
    SizeClass::holding(length).context("too long")
}
