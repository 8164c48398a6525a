use super::*;

/// The example of the specification's reference implementation.
const NOTE: &str = "If you think cryptography is the answer to your problem,\n\
    then you don't know what your problem is.\n\
    \n\
    \u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

/// Verifier keys from other projects, of both types.
const KEYS: [&str; 7] = [
    "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
    "TEST+7997405c+AQcC+FTVKf0jlTdHDY3rbevmnKxxPjigCXlVtGe6RIr6",
    "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8",
    "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
    "witness.stagemole.eu+67f7aea0+BEqSG3yu9YrmcM3BHvQYTxwFj3uSWakQepafafpUqklv",
    "transparency.dev/DEV:witness-little-garden+d8042a87+BCtusOxINQNUTN5Oj8HObRkh2yHf/MwYaGX4CPdiVEPM",
];

#[test]
fn known_note() {
    let note = Note::parse(NOTE.as_bytes()).unwrap();
    assert!(note.text().starts_with("If you think") && note.text().ends_with("problem is.\n"));
    let [signature] = note.signatures() else { panic!("one signature") };
    assert_eq!(signature.name.as_str(), "PeterNeumann");
    assert_eq!(signature.key_id, [0xc7, 0x4f, 0x20, 0xa3]);
    assert_eq!(signature.signature.len(), 64);
    assert!(signature.is_by(&KEYS[0].parse().unwrap()));
    assert!(!signature.is_by(&KEYS[1].parse().unwrap()));
    assert_eq!(note.to_bytes(), NOTE.as_bytes());
    assert_eq!(format!("{signature}\n"), NOTE.rsplit_once("\n\n").unwrap().1);
}

#[test]
fn known_keys() {
    for text in KEYS {
        let key: VerifierKey = text.parse().unwrap();
        assert_eq!(key.to_string(), text);
        let expected = if text.contains("+B") { KeyType::CosignatureV1 } else { KeyType::Ed25519 };
        assert_eq!(key.key_type(), expected);
        assert_eq!(VerifierKey::new(key.name().clone(), expected, *key.public_key()), key);
    }
}

#[test]
fn keys_that_do_not_parse() {
    for text in [
        "",
        "PeterNeumann",
        "PeterNeumann+c74f20a3",
        // The identifier of another key, upper case, too long, and none.
        "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+0c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann++ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        // Another name, no name, and a name with a space.
        "PeterNewmann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        // Another type, a key that is too short, and no key.
        "PeterNeumann+c74f20a3+Ahpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy1w==",
        "PeterNeumann+c74f20a3+AQ==",
        "PeterNeumann+c74f20a3+",
        // Trailing text, and white space.
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW+",
        "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW\n",
        " PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
    ] {
        assert!(text.parse::<VerifierKey>().is_err(), "{text:?}");
    }
}

#[test]
fn key_names() {
    for name in ["a", "example.com/log", "naïve", "oid/1.2.3", &"n".repeat(255)] {
        assert_eq!(name.parse::<KeyName>().unwrap().to_string(), name);
    }
    for name in ["", "a b", "a+b", "a\u{a0}b", "a\u{3000}", "\u{85}", "a\nb", "a\tb", "a\u{1}"] {
        assert!(name.parse::<KeyName>().is_err(), "{name:?}");
    }
    assert!("n".repeat(256).parse::<KeyName>().is_err());
}

#[test]
fn the_last_empty_line_separates() {
    let signature = NOTE.rsplit_once("\n\n").unwrap().1;
    for text in
        ["a\n", "a\n\nb\n", "a\n\n\n", "\n", "\n\n", "\u{2014} x AAAAAAA=\n\n\u{2014} y z\n"]
    {
        let bytes = format!("{text}\n{signature}");
        let note = Note::parse(bytes.as_bytes()).unwrap();
        assert_eq!(note.text(), text);
        assert_eq!(note.to_bytes(), bytes.as_bytes());
        let built = Note::new(text).unwrap().with_signature(note.signatures()[0].clone());
        assert_eq!(built, note);
    }
}

#[test]
fn notes_that_do_not_parse() {
    let (text, line) = NOTE.rsplit_once("\n\n").unwrap();
    let line = line.trim_end();
    let with = |lines: &str| format!("{text}\n\n{lines}");
    for bytes in [
        String::new(),
        "\n".into(),
        text.into(),
        format!("{text}\n"),
        format!("{text}\n\n"),
        with(line),
        with(&format!("{line}\n\n")),
        with(&format!("\n{line}")),
        with(&format!("{line}\nmore\n")),
        with(&format!("{line}\r\n")),
        with(&format!("{}\n", line.replace('\u{2014}', "-"))),
        with(&format!("{}\n", line.replace("\u{2014} ", "\u{2014}"))),
        with(&format!("{}\n", line.replace("\u{2014} ", "\u{2014}  "))),
        with(&format!("{}\n", line.replace("Peter", "Peter "))),
        with(&format!("{}\n", line.replace("Peter", "Peter+"))),
        with(&format!("{}\n", line.replace("JnAM=", "JnAM"))),
        // Base64 with leftover bits is a second encoding of the same bytes.
        with(&format!("{}\n", line.replace("JnAM=", "JnAN="))),
        with(&format!("{line} \n")),
        // A key identifier without a signature, and even less.
        with("\u{2014} name AAAAAA==\n"),
        with("\u{2014} name AAAA\n"),
        with("\u{2014} name \n"),
        with("\u{2014} name\n"),
        with(&format!("{line}\n")).replace("think", "think\t"),
        with(&format!("{line}\n")).replace("think", "think\0"),
    ] {
        assert!(Note::parse(bytes.as_bytes()).is_err(), "{bytes:?}");
    }
    let mut not_utf8 = NOTE.as_bytes().to_vec();
    not_utf8[3] = 0xff;
    assert!(Note::parse(&not_utf8).is_err());
    for text in ["", "a", "a\nb", "a\tb\n", "a\r\n"] {
        assert!(Note::new(text).is_err(), "{text:?}");
    }
}

#[test]
fn limits() {
    let signature = Note::parse(NOTE.as_bytes()).unwrap().signatures()[0].clone();
    let signed = |count: usize| {
        let note = Note::new("text\n").unwrap();
        (0..count).fold(note, |note, _| note.with_signature(signature.clone())).to_bytes()
    };
    assert_eq!(Note::parse(&signed(64)).unwrap().signatures().len(), 64);
    assert!(Note::parse(&signed(65)).is_err());
    assert!(Note::parse(&signed(0)).is_err());

    let long = |len: usize| {
        let text = format!("{}\n", "a".repeat(len));
        Note::new(text).map(|note| note.with_signature(signature.clone()).to_bytes())
    };
    let room = MAX_NOTE_LEN - (signed(1).len() - "text".len());
    assert!(Note::parse(&long(room).unwrap()).is_ok());
    assert!(Note::parse(&long(room + 1).unwrap()).is_err());
    assert!(long(MAX_NOTE_LEN).is_err());
}

#[test]
fn errors_name_the_line() {
    let error = Note::parse("a\n\nb\n\n\u{2014} name AAAAAAA=\nbad\n".as_bytes()).unwrap_err();
    assert_eq!(error.line(), Some(6));
}

#[test]
fn lines_alone() {
    let line = NOTE.rsplit_once("\n\n").unwrap().1;
    let two = format!("{line}\u{2014} other AAAAAAA=\n");
    let signatures = NoteSignature::parse_lines(two.as_bytes()).unwrap();
    assert_eq!(signatures.len(), 2);
    assert_eq!(NoteSignature::to_lines(&signatures), two.as_bytes());
    for bytes in ["", "\n", line.trim_end(), &format!("\n{line}"), &format!("{line}\n")] {
        assert!(NoteSignature::parse_lines(bytes.as_bytes()).is_err(), "{bytes:?}");
    }
}
