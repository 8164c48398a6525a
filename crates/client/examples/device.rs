//! A device that takes part. `device TRUST.toml STATE-FILE LOG-URL` runs one pass over the log.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::{env, fs};

use sotto_client::{
    Host, HttpOptions, HttpTransport, InsecureName, Log, Participant, SealingKey, StateFile,
};
use sotto_protocol::expression::Value;
use sotto_protocol::trust::{Trust, TrustFile};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [trust, state, log] = &arguments[..] else { return Err("TRUST STATE-FILE LOG-URL".into()) };
    let trust: TrustFile = toml::from_str(&fs::read_to_string(trust)?)?;
    let trust = Arc::new(Trust::try_from(trust)?);

    let mut host = Host::new(Arc::new(HttpTransport::new(HttpOptions::default())?));
    host.attributes = Box::new(|| Ok([("minutes".to_owned(), Value::Int(20))].into()));
    // A real device shows a certificate from its manufacturer, and seals its state under a hardware
    // key.
    host.attestor = Some(Box::new(InsecureName::new(format!("device {state}"))?));
    let store = StateFile::open(state.as_ref(), &SealingKey::new([7; 32]))?;

    let log = Log::at(log, &host, &trust)?;
    let mut device = Participant::new(host, trust, store, log);
    let pass = device.pass()?;
    for recipe in &pass.considered {
        println!("considered {}", device.log().name(recipe).unwrap_or_default());
    }
    for (_, silence) in &pass.silent {
        println!("silent: {silence}");
    }
    Ok(())
}
