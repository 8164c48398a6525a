use super::*;
use crate::note::Note;

/// A real checkpoint: signed by its log and cosigned by witnesses.
pub(super) const CHECKPOINT: &str = include_str!("../../tests/data/checkpoint.txt");

fn hash(byte: u8) -> TreeHash {
    TreeHash([byte; 32])
}

#[test]
fn hashes_in_text() {
    let text = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
    let hash: TreeHash = text.parse().unwrap();
    assert_eq!(hash.0[..4], [0xe3, 0xb0, 0xc4, 0x42]);
    assert_eq!(hash.to_string(), text);
    assert!(format!("{hash:?}").starts_with("TreeHash(e3b0c442"));
    for text in [
        "",
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=",
        "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=",
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuA==",
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFVV",
        " 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    ] {
        assert!(text.parse::<TreeHash>().is_err(), "{text:?}");
    }
}

#[test]
fn known_checkpoint() {
    let note = Note::parse(CHECKPOINT.as_bytes()).unwrap();
    assert_eq!(note.signatures().len(), 6);
    assert_eq!(note.to_bytes(), CHECKPOINT.as_bytes());
    let checkpoint = Checkpoint::parse(note.text()).unwrap();
    assert_eq!(checkpoint.origin, "arche2025h1.staging.ct.transparency.dev");
    assert_eq!(checkpoint.size, 1_432_088_532);
    assert_eq!(checkpoint.root.to_string(), "U7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=");
    assert_eq!(checkpoint.extensions, [""; 0]);
    assert_eq!(checkpoint.to_text(), note.text());
}

#[test]
fn checkpoints() {
    let root = hash(7);
    for (text, extensions) in [
        (format!("o\n0\n{root}\n"), 0),
        (format!("example.com/log 1+\n18446744073709551615\n{root}\n"), 0),
        (format!("o\n1\n{root}\nmore\nand more\n"), 2),
    ] {
        let checkpoint = Checkpoint::parse(&text).unwrap();
        assert_eq!(checkpoint.extensions.len(), extensions);
        assert_eq!(checkpoint.to_text(), text);
    }
    for text in [
        String::new(),
        "\n".into(),
        "o\n1\n".into(),
        format!("\n1\n{root}\n"),
        format!("o\n1\n{root}"),
        format!("o\n01\n{root}\n"),
        format!("o\n+1\n{root}\n"),
        format!("o\n-1\n{root}\n"),
        format!("o\n1 \n{root}\n"),
        format!("o\n\n{root}\n"),
        format!("o\n18446744073709551616\n{root}\n"),
        format!("o\n1\n{root}\n\n"),
        format!("o\n1\n{root}\n\nmore\n"),
        format!("o\n1\n {root}\n"),
        format!("o\r\n1\n{root}\n"),
    ] {
        assert!(Checkpoint::parse(&text).is_err(), "{text:?}");
    }
}

#[test]
fn proofs() {
    let head = "c2sp.org/tlog-proof@v1\n";
    let hashes: String = (0..64).map(|byte| format!("{}\n", hash(byte))).collect();
    for (text, extra, index, count) in [
        (format!("{head}index 0\n\n{CHECKPOINT}"), None, 0, 0),
        (format!("{head}extra \nindex 1\n\n{CHECKPOINT}"), Some(vec![]), 1, 0),
        (format!("{head}extra AQI=\nindex 9\n{hashes}\n{CHECKPOINT}"), Some(vec![1, 2]), 9, 64),
        (format!("{head}index {}\n{}\n\n{CHECKPOINT}", u64::MAX, hash(1)), None, u64::MAX, 1),
    ] {
        let proof = TlogProof::parse(text.as_bytes()).unwrap();
        assert_eq!((&proof.extra, proof.index, proof.hashes.len()), (&extra, index, count));
        assert_eq!(proof.checkpoint.to_bytes(), CHECKPOINT.as_bytes());
        assert_eq!(proof.to_bytes(), text.as_bytes());
    }
    for text in [
        String::new(),
        head.to_owned(),
        format!("{head}\n{CHECKPOINT}"),
        format!("{head}index 0\n"),
        format!("{head}index 0\n\n"),
        format!("{head}index 0\n{CHECKPOINT}"),
        format!("{head}index 00\n\n{CHECKPOINT}"),
        format!("{head}index  0\n\n{CHECKPOINT}"),
        format!("{head}Index 0\n\n{CHECKPOINT}"),
        format!("{head}index 0\nextra AQI=\n\n{CHECKPOINT}"),
        format!("{head}extra AQI\nindex 0\n\n{CHECKPOINT}"),
        format!("{head}extra AQI=\nextra AQI=\nindex 0\n\n{CHECKPOINT}"),
        format!("{head}index 0\nAQI=\n\n{CHECKPOINT}"),
        format!("{head}index 0\n{hashes}{}\n\n{CHECKPOINT}", hash(0)),
        format!("{head}index 0\n\n\n{CHECKPOINT}"),
        format!("{head}index 0\n\nnot a checkpoint\n\n\u{2014} name AAAAAAA=\n"),
        format!("{head}index 0\n\n{}", CHECKPOINT.replace('\u{2014}', "-")),
        format!("c2sp.org/tlog-proof@v2\nindex 0\n\n{CHECKPOINT}"),
    ] {
        assert!(TlogProof::parse(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn requests_to_a_witness() {
    let hashes: String = (0..63).map(|byte| format!("{}\n", hash(byte))).collect();
    for (text, old_size, count) in [
        (format!("old 0\n\n{CHECKPOINT}"), 0, 0),
        (format!("old 20852014\n{hashes}\n{CHECKPOINT}"), 20_852_014, 63),
    ] {
        let request = AddCheckpoint::parse(text.as_bytes()).unwrap();
        assert_eq!((request.old_size, request.proof.len()), (old_size, count));
        assert_eq!(request.to_bytes(), text.as_bytes());
    }
    for text in [
        format!("\n{CHECKPOINT}"),
        format!("old\n\n{CHECKPOINT}"),
        format!("old 01\n\n{CHECKPOINT}"),
        format!("old 1\n{CHECKPOINT}"),
        format!("old 1\n{hashes}{}\n\n{CHECKPOINT}", hash(0)),
        format!("old 1\nAAAA\n\n{CHECKPOINT}"),
        "old 1\n\nnot a checkpoint\n\n\u{2014} name AAAAAAA=\n".into(),
    ] {
        assert!(AddCheckpoint::parse(text.as_bytes()).is_err(), "{text:?}");
    }
    assert_eq!(witness::parse_tree_size_body(witness::tree_size_body(7).as_bytes()), Ok(7));
    for body in ["", "\n", "7", "07\n", "7\n\n", " 7\n", "18446744073709551616\n"] {
        assert!(witness::parse_tree_size_body(body.as_bytes()).is_err(), "{body:?}");
    }
}

#[test]
fn decimal_numbers() {
    for (text, number) in [("0", 0), ("10", 10), ("18446744073709551615", u64::MAX)] {
        assert_eq!(parse_decimal(text), Ok(number));
    }
    for text in ["", "00", "01", "+1", "-1", "1_0", " 1", "1 ", "0x1", "\u{0661}"] {
        assert!(parse_decimal(text).is_err(), "{text:?}");
    }
}
