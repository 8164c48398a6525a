//! `docs/configuration.md`: every setting of every role. `SOTTO_BLESS=1 cargo test -p sotto
//! the_reference_page` writes it again.

use sotto_server::settings::reference;
use sotto_server::{
    AttesterFile, GatewayFile, HelperFile, IssuerFile, LeaderFile, LogFile, RelayFile, WitnessFile,
};

const HEAD: &str = "\
# Configuration reference

This page is generated from the doc comments and defaults of the configuration types in
`crates/server`. To change it, change those, and run `SOTTO_BLESS=1 cargo test -p sotto
the_reference_page`.

Each server reads one TOML file. `sotto serve ROLE --print-config` prints it with every setting.
Unknown keys are errors. Paths are relative to the file. `SOTTO_LISTEN`, `SOTTO_ADMIN_LISTEN` and
`SOTTO_DATA_DIR` win over the file (a relay uses the last one for `spool_dir`). `SOTTO_LOG` sets the
level of the log output: `error`, `warn`, `info` or `debug`.

`limits.cpu_threads` is the key `cpu_threads` in the table `[limits]`, and `gateways[].url` the key
`url` in each table `[[gateways]]`. What is required in a table is required if the table is there.
Keys end in their unit: `_s` in seconds, `_ms` in milliseconds, `_bytes` in bytes.
";

fn page() -> String {
    [
        HEAD.to_owned(),
        reference::<LeaderFile>("Leader"),
        reference::<HelperFile>("Helper"),
        reference::<LogFile>("Log"),
        reference::<WitnessFile>("Witness"),
        reference::<RelayFile>("Relay"),
        reference::<GatewayFile>("Gateway"),
        reference::<AttesterFile>("Attester"),
        reference::<IssuerFile>("Issuer"),
    ]
    .join("\n")
}

#[test]
fn the_reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("SOTTO_BLESS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(committed, page(), "run: SOTTO_BLESS=1 cargo test -p sotto the_reference_page");
}
