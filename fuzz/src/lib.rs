//! What all fuzz targets share: each feeds one entry of the table of decoders in `sotto-testing`.

/// Makes the file that calls it the fuzz target of one decoder.
#[macro_export]
macro_rules! decoder_target {
    ($name:literal) => {
        ::libfuzzer_sys::fuzz_target!(
            init: $crate::require($name),
            |bytes: &[u8]| {
                $crate::decode($name, bytes);
            }
        );
    };
}

/// Stops at once if there is no decoder of this name.
pub fn require(name: &str) {
    assert!(sotto_testing::decoders::decoder(name).is_some(), "no decoder {name}");
}

/// Decodes; panics if what was decoded does not encode to the same bytes, or does not come back.
pub fn decode(name: &str, bytes: &[u8]) {
    if let Some(decoder) = sotto_testing::decoders::decoder(name) {
        (decoder.decode)(bytes);
    }
}
