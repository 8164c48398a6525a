//! The examples of RFC 9292 §5.

use std::borrow::Cow;

use sotto_wire::bhttp::{Field, Informational, Request, Response};

/// Figure "Known-Length Binary Encoding of Request".
pub(crate) const KNOWN_REQUEST: &str = "
    00034745 54056874 74707300 0a2f6865
    6c6c6f2e 74787440 6c0a7573 65722d61
    67656e74 34637572 6c2f372e 31362e33
    206c6962 6375726c 2f372e31 362e3320
    4f70656e 53534c2f 302e392e 376c207a
    6c69622f 312e322e 3304686f 73740f77
    77772e65 78616d70 6c652e63 6f6d0f61
    63636570 742d6c61 6e677561 67650665
    6e2c206d 690000";

/// Figure "Indeterminate-Length Binary Encoding of Request".
pub(crate) const INDETERMINATE_REQUEST: &str = "
    02034745 54056874 74707300 0a2f6865
    6c6c6f2e 7478740a 75736572 2d616765
    6e743463 75726c2f 372e3136 2e33206c
    69626375 726c2f37 2e31362e 33204f70
    656e5353 4c2f302e 392e376c 207a6c69
    622f312e 322e3304 686f7374 0f777777
    2e657861 6d706c65 2e636f6d 0f616363
    6570742d 6c616e67 75616765 06656e2c
    206d6900 00000000 00000000 00000000";

/// Figure "Binary Response, including Informational Responses".
pub(crate) const INDETERMINATE_RESPONSE: &str = "
    03406607 72756e6e 696e670a 22736c65
    65702031 35220040 67046c69 6e6b233c
    2f737479 6c652e63 73733e3b 2072656c
    3d707265 6c6f6164 3b206173 3d737479
    6c65046c 696e6b24 3c2f7363 72697074
    2e6a733e 3b207265 6c3d7072 656c6f61
    643b2061 733d7363 72697074 0040c804
    64617465 1d4d6f6e 2c203237 204a756c
    20323030 39203132 3a32383a 35332047
    4d540673 65727665 72064170 61636865
    0d6c6173 742d6d6f 64696669 65641d57
    65642c20 3232204a 756c2032 30303920
    31393a31 353a3536 20474d54 04657461
    67142233 34616133 38372d64 2d313536
    38656230 30220d61 63636570 742d7261
    6e676573 05627974 65730e63 6f6e7465
    6e742d6c 656e6774 68023531 04766172
    790f4163 63657074 2d456e63 6f64696e
    670c636f 6e74656e 742d7479 70650a74
    6578742f 706c6169 6e003348 656c6c6f
    20576f72 6c642120 4d792063 6f6e7465
    6e742069 6e636c75 64657320 61207472
    61696c69 6e672043 524c462e 0d0a0000";

/// Figure "Known-Length Encoding of Response".
pub(crate) const KNOWN_RESPONSE: &str = "
    0140c800 1d546869 7320636f 6e74656e
    7420636f 6e746169 6e732043 524c462e
    0d0a0d07 74726169 6c657204 74657874";

/// Figure "Sample HTTP Request".
pub(crate) fn request() -> Request<'static> {
    Request {
        method: "GET",
        scheme: "https",
        authority: "",
        path: "/hello.txt",
        fields: vec![
            field("user-agent", "curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"),
            field("host", "www.example.com"),
            field("accept-language", "en, mi"),
        ],
        content: Cow::default(),
        trailers: Vec::new(),
    }
}

/// Figure "Sample HTTP Response".
pub(crate) fn response() -> Response<'static> {
    Response {
        informational: vec![
            Informational { status: 102, fields: vec![field("running", "\"sleep 15\"")] },
            Informational {
                status: 103,
                fields: vec![
                    field("link", "</style.css>; rel=preload; as=style"),
                    field("link", "</script.js>; rel=preload; as=script"),
                ],
            },
        ],
        status: 200,
        fields: vec![
            field("date", "Mon, 27 Jul 2009 12:28:53 GMT"),
            field("server", "Apache"),
            field("last-modified", "Wed, 22 Jul 2009 19:15:56 GMT"),
            field("etag", "\"34aa387-d-1568eb00\""),
            field("accept-ranges", "bytes"),
            field("content-length", "51"),
            field("vary", "Accept-Encoding"),
            field("content-type", "text/plain"),
        ],
        content: Cow::Borrowed(b"Hello World! My content includes a trailing CRLF.\r\n"),
        trailers: Vec::new(),
    }
}

/// Figure "Chunked Encoding Example".
pub(crate) fn chunked_response() -> Response<'static> {
    Response {
        informational: Vec::new(),
        status: 200,
        fields: Vec::new(),
        content: Cow::Borrowed(b"This content contains CRLF.\r\n"),
        trailers: vec![field("trailer", "text")],
    }
}

pub(crate) fn field(name: &'static str, value: &'static str) -> Field<'static> {
    Field { name, value: value.as_bytes() }
}

pub(crate) fn bytes(dump: &str) -> Vec<u8> {
    hex::decode(dump.split_whitespace().collect::<String>()).unwrap()
}
