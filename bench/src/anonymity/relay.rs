//! The CPU time of a relay, compared with a bare reverse proxy: same load, same gateway behind
//! them, in alternation.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use sotto_tests::http::head;
use sotto_wire::ohttp::REQUEST_MEDIA_TYPE;

use super::parties::{ANSWER_LEN, OPERATOR, Part, Party};
use crate::load::Load;

/// A request of 6 KB without padding, and as a device sends it: padded to its size class.
const BODY_LENS: [usize; 2] = [6_000, 16 * 1024];
const CONNECTIONS: u8 = 32;

/// CPU microseconds per request, the minimum over the rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relayed {
    /// The length of the request's body.
    pub(super) bytes: usize,
    pub(super) relay_us: f64,
    pub(super) proxy_us: f64,
    /// The median of the rounds' ratios.
    pub(super) median_ratio: f64,
}

/// Runs this many rounds of `count` requests for each.
pub(super) fn measure(rounds: usize, count: u64) -> Result<Vec<Relayed>> {
    let gateway = Party::start(Part::Gateway, None)?;
    let relay = Party::start(Part::Relay, Some(gateway.address))?;
    let proxy = Party::start(Part::Proxy, Some(gateway.address))?;
    let mut all = Vec::new();
    for bytes in BODY_LENS {
        let body = vec![7; bytes];
        // Connections and buffers exist before the clock starts.
        for party in [&relay, &proxy] {
            load(party, &body, count / 10)?;
        }
        let (mut relay_us, mut proxy_us, mut ratios) = (f64::INFINITY, f64::INFINITY, Vec::new());
        for _ in 0..rounds {
            let (ours, bare) = (load(&relay, &body, count)?, load(&proxy, &body, count)?);
            (relay_us, proxy_us) = (relay_us.min(ours), proxy_us.min(bare));
            ratios.push(ours / bare);
        }
        ratios.sort_by(f64::total_cmp);
        let median_ratio = ratios.get(rounds / 2).copied().context("no rounds")?;
        all.push(Relayed { bytes, relay_us, proxy_us, median_ratio });
    }
    Ok(all)
}

/// Sends requests through a party and returns its CPU microseconds per request.
fn load(party: &Party, body: &[u8], count: u64) -> Result<f64> {
    let media_type = ("content-type", REQUEST_MEDIA_TYPE);
    let head = head("POST", &format!("/{OPERATOR}"), &[media_type], body.len());
    let begin = party.process.cpu()?;
    Load {
        address: party.address,
        head: &head,
        count,
        connections: CONNECTIONS,
        // Pools count source addresses.
        source: |connection| Ipv4Addr::new(127, 0, 1, connection),
        answer_len: ANSWER_LEN,
        body: |_, bytes: &mut Vec<u8>| {
            bytes.clear();
            bytes.extend_from_slice(body);
            Ok(())
        },
    }
    .send()?;
    Ok((party.process.cpu()? - begin).as_secs_f64() * 1e6 / count as f64)
}
