use serde_json::{Value, json};

use super::*;

fn all() -> [VdafConfig; 8] {
    [
        VdafConfig::count(),
        VdafConfig::sum(255),
        VdafConfig::sum_vec(1000, 1),
        VdafConfig::histogram(256),
        VdafConfig::multihot_count_vec(1000, 50),
        VdafConfig::l1_bound_sum(1000, 255),
        VdafConfig::pine64(1000, 1 << 15),
        VdafConfig::pine128(1_000_000, 1 << 58),
    ]
}

#[test]
fn binary_encodings() {
    let hex: Vec<_> = all()
        .iter()
        .map(|config| (config.vdaf_type(), hex::encode(config.encode_configuration())))
        .collect();
    let expected = [
        (1, ""),
        (2, "00000000000000ff"),
        (3, "000003e8000000000000000100000021"),
        (4, "0000010000000012"),
        (5, "000003e8000000210000000000000032"),
        (7, "000003e800000000000000ff00000040"),
        (0xFFFF_0064, "000003e800000000000080000000002500000021"),
        (0xFFFF_0128, "000f424004000000000000000000006b000007a5"),
    ];
    assert_eq!(hex, expected.map(|(vdaf_type, hex)| (vdaf_type, hex.to_owned())));
}

#[test]
fn binary_round_trip_and_wrong_lengths() {
    for config in all() {
        let bytes = config.encode_configuration();
        assert_eq!(VdafConfig::decode(config.vdaf_type(), &bytes), Ok(config.clone()));
        let longer = [bytes.as_slice(), &[0]].concat();
        let wrong = VdafConfig::decode(config.vdaf_type(), &longer);
        assert!(matches!(wrong, Err(ConfigError::Length { .. })), "{config:?}");
        if let Some((_, shorter)) = bytes.split_last() {
            assert!(VdafConfig::decode(config.vdaf_type(), shorter).is_err());
        }
    }
    for unknown in [0, 6, 8, 0xFFFF_0065, 0xFFFF_1003, u32::MAX] {
        assert_eq!(VdafConfig::decode(unknown, b""), Err(ConfigError::UnknownType(unknown)));
    }
}

#[test]
fn readable_form() {
    let written: Vec<Value> = all().map(|c| serde_json::to_value(c).unwrap()).into();
    assert_eq!(written[0], json!({"type": "Prio3Count"}));
    assert_eq!(written[3], json!({"type": "Prio3Histogram", "length": 256, "chunk_length": 18}));
    let pine = json!({
        "type": "Pine64", "dimension": 1000, "norm_bound": 32_768,
        "chunk_length": 37, "chunk_length_norm_equality": 33,
    });
    assert_eq!(written[6], pine);
    for (config, written) in all().into_iter().zip(written) {
        assert_eq!(serde_json::from_value::<VdafConfig>(written).unwrap(), config);
    }
    // Beyond what JSON readers keep exactly: written as a string, and read back.
    let large = VdafConfig::sum(u64::MAX - (1 << 40));
    let written = serde_json::to_value(&large).unwrap();
    assert!(written["max_measurement"].is_string());
    assert_eq!(serde_json::from_value::<VdafConfig>(written).unwrap(), large);
}

#[test]
fn readable_form_takes_strings_and_fills_in_the_chunk_length() {
    let read = |value| serde_json::from_value::<VdafConfig>(value);
    let strings = json!({"type": "Prio3SumVec", "length": "1000", "max_measurement": "1"});
    assert_eq!(read(strings).unwrap(), VdafConfig::sum_vec(1000, 1));
    let given = json!({"type": "Prio3Histogram", "length": "8", "chunk_length": "3"});
    let expected = VdafConfig::Prio3Histogram { length: 8, chunk_length: 3 };
    assert_eq!(read(given).unwrap(), expected);
    let pine = json!({"type": "Pine128", "dimension": "20", "norm_bound": "128"});
    assert_eq!(read(pine).unwrap(), VdafConfig::pine128(20, 128));
    let given = json!({
        "type": "Pine64", "dimension": 20, "norm_bound": 128,
        "chunk_length": 150, "chunk_length_norm_equality": 7,
    });
    let expected = VdafConfig::Pine {
        field: PineField::Field64,
        dimension: 20,
        norm_bound: 128,
        chunk_length: 150,
        chunk_length_norm_equality: 7,
    };
    assert_eq!(read(given).unwrap(), expected);
    // A given value is kept, for `build` to check.
    let given = json!({"type": "Prio3Histogram", "length": 256, "chunk_length": 2});
    assert!(matches!(read(given).unwrap().build(), Err(ConfigError::ChunkLength { .. })));

    for bad in [
        json!({"type": "Prio3Nothing"}),
        json!({"length": 3}),
        json!({"type": "Prio3Histogram"}),
        json!({"type": "Prio3Histogram", "length": -1}),
        json!({"type": "Prio3Histogram", "length": 1.5}),
        json!({"type": "Prio3Histogram", "length": "+1"}),
        json!({"type": "Prio3Histogram", "length": ""}),
        json!({"type": "Prio3Histogram", "length": "1e3"}),
        json!({"type": "Prio3Histogram", "length": 4_294_967_296u64}),
        json!({"type": "Prio3Histogram", "length": 3, "chunk_lenght": 1}),
        json!({"type": "Prio3Count", "length": 3}),
        json!({"type": "Prio3Sum", "max_measurement": "18446744073709551616"}),
    ] {
        assert!(read(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn the_chunk_length_must_be_from_optimal_to_four_times_optimal() {
    let with = |chunk_length| VdafConfig::Prio3Histogram { length: 256, chunk_length }.build();
    for good in [18, 19, 36, 72] {
        assert!(with(good).is_ok(), "{good}");
    }
    for bad in [1, 2, 9, 17, 73, 256] {
        let Err(ConfigError::ChunkLength { actual, optimal, max, .. }) = with(bad) else {
            panic!("{bad} accepted");
        };
        assert_eq!((actual, optimal, max), (bad, 18, 72));
    }
    assert!(with(0).is_err());
    assert!(with(u32::MAX).is_err());
    let message = with(2).unwrap_err().to_string();
    assert!(message.contains("chunk_length 2 is outside 18..=72"), "{message}");
}

#[test]
fn the_constructors_choose_the_optimal_chunk_length() {
    for config in all() {
        config.build().unwrap();
        // One less is rejected, so the chosen value is the smallest that is accepted.
        let mut smaller = config.clone();
        if let Some(chunk_length) = smaller.chunk_length_mut() {
            *chunk_length -= 1;
            assert!(smaller.build().is_err(), "{smaller:?}");
        }
    }
    for length in 1..200 {
        VdafConfig::histogram(length).build().unwrap();
    }
}

#[test]
fn degenerate_and_enormous_parameters_are_refused() {
    let refused = [
        VdafConfig::sum(0),
        VdafConfig::sum(u64::MAX - (1 << 32) + 2), // the modulus
        VdafConfig::sum_vec(0, 1),
        VdafConfig::sum_vec(1, 0),
        VdafConfig::sum_vec(u32::MAX, u64::MAX),
        VdafConfig::sum_vec(1 << 17, 4),
        VdafConfig::histogram(0),
        VdafConfig::histogram((1 << 18) + 1),
        VdafConfig::histogram(u32::MAX),
        VdafConfig::multihot_count_vec(0, 1),
        VdafConfig::multihot_count_vec(4, 0),
        VdafConfig::multihot_count_vec(4, 5),
        VdafConfig::multihot_count_vec(1 << 18, 1),
        VdafConfig::l1_bound_sum(0, 1),
        VdafConfig::l1_bound_sum(4, 0),
        VdafConfig::l1_bound_sum(u32::MAX, u64::MAX),
        VdafConfig::l1_bound_sum(1 << 18, 1),
        VdafConfig::pine64(0, 1),
        VdafConfig::pine64(1, 0),
        VdafConfig::pine64(1, (1 << 26) + 1),
        VdafConfig::pine128(1, (1 << 58) + 1),
        VdafConfig::pine64((1 << 20) + 1, 1),
        VdafConfig::pine64(u32::MAX, u64::MAX),
    ];
    for config in refused {
        let error = config.build().unwrap_err();
        assert!(
            matches!(error, ConfigError::Parameter { .. } | ConfigError::TooLong { .. }),
            "{config:?}: {error}"
        );
        assert!(error.to_string().starts_with(config.name()), "{error}");
    }
    let largest = [
        VdafConfig::sum(u64::MAX - (1 << 32) + 1), // the modulus less one
        VdafConfig::sum_vec(1 << 12, u64::MAX),
        VdafConfig::sum_vec(1 << 18, 1),
        VdafConfig::histogram(1 << 18),
        VdafConfig::l1_bound_sum((1 << 18) - 1, 1),
    ];
    for config in largest {
        let sizes = config.build().unwrap().sizes();
        assert!(sizes.leader_share < 4_400_000, "{config:?}: {sizes:?}");
    }
}

/// Reports of PINE are as long as their vector, and little longer.
#[test]
fn pine_has_a_limit_of_its_own() {
    for (config, element) in [
        (VdafConfig::pine64(MAX_DIMENSION, 1 << 26), 8),
        (VdafConfig::pine128(MAX_DIMENSION, 1 << 58), 16),
    ] {
        let sizes = config.build().unwrap().sizes();
        let vector = element * MAX_DIMENSION as usize;
        assert!(sizes.leader_share < vector + vector / 50, "{config:?}: {sizes:?}");
    }
}

/// By trying all of them.
#[test]
fn the_chunk_lengths_of_pine_make_the_shortest_reports() {
    for dimension in [1, 2, 30, 100, 250, 1_000] {
        let config = VdafConfig::pine64(dimension, 1 << 10);
        let optimal = config.build().unwrap().sizes().leader_share;
        let VdafConfig::Pine { field, norm_bound, chunk_length, .. } = config else { panic!() };
        for chunk_length_norm_equality in 1..=dimension {
            let other = VdafConfig::Pine {
                field,
                dimension,
                norm_bound,
                chunk_length,
                chunk_length_norm_equality,
            };
            let (_, parameters) = other.pine_parameters().unwrap();
            let size = pine::build(other, field, parameters, Instructions::SCALAR)
                .unwrap()
                .sizes()
                .leader_share;
            assert!(size >= optimal, "{dimension}: {chunk_length_norm_equality}");
        }
    }
    let VdafConfig::Pine { chunk_length, .. } = VdafConfig::pine64(1, 1 << 15) else { panic!() };
    assert_eq!(chunk_length, 37);
    for bad in [14, 61, u32::MAX] {
        let mut config = VdafConfig::pine64(100, 1 << 15);
        if let VdafConfig::Pine { chunk_length_norm_equality, .. } = &mut config {
            // From 15 to 60 is accepted.
            *chunk_length_norm_equality = bad;
        }
        let error = config.build().unwrap_err().to_string();
        assert!(error.contains("chunk_length_norm_equality"), "{error}");
    }
}
