//! A web server of files, for the models of trainings.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Result;

/// What recipes call the server.
pub const ORIGIN: &str = "http://models.example";

/// The folder of models, as recipes name it.
pub const MODELS: &str = "http://models.example/of/author";

/// Serves the files below a folder, as any web server does, with the usual fields, until this
/// process ends. Returns its URL.
pub fn web_server(folder: PathBuf) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            thread::spawn(move || serve(stream, &folder));
        }
    });
    Ok(url)
}

fn serve(stream: TcpStream, folder: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            (reader.read_line(&mut line).ok()? > 0).then_some(())?;
            if line == "\r\n" {
                break;
            }
            lines.push(line);
        }
        let path = lines.first()?.split(' ').nth(1)?.to_owned();
        let file = path.strip_prefix("/of/author/").map(|path| fs::read(folder.join(path)));
        let (status, body) = match file {
            Some(Ok(file)) => ("200 OK", file),
            _ => ("404 Not Found", b"nothing here".to_vec()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nServer: web\r\nContent-Type: application/octet-stream\r\n\
             ETag: \"{}\"\r\nCache-Control: max-age=31536000, immutable\r\nContent-Length: {}\r\n\r\n",
            "x".repeat(300),
            body.len()
        );
        reader.get_mut().write_all(head.as_bytes()).ok()?;
        reader.get_mut().write_all(&body).ok()?;
    }
}
