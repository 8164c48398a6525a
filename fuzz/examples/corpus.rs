//! Writes the examples of every decoder to `corpus/<target>/`, for the fuzzer to start from.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for decoder in sotto_testing::decoders::DECODERS {
        let folder = corpus.join(decoder.name);
        fs::create_dir_all(&folder)?;
        for (index, seed) in (decoder.seeds)().into_iter().enumerate() {
            fs::write(folder.join(format!("example-{index}")), seed)?;
        }
    }
    Ok(())
}
