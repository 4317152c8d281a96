//! Asynchronous client of the admin socket, for answers that are read line by line while they come.

use super::socket::{AdminResponse, SOCKET_NAME};
use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// The lines of an answer.
#[derive(Debug)]
pub(crate) struct LineStream {
    body: Incoming,
    unread: BytesMut,
    /// number of unread bytes that contain no end of a line
    searched: usize,
    socket: PathBuf,
    inode: u64,
}

impl LineStream {
    /// Returns the next line without its end, or `None` after the last one. Loses nothing if the future is dropped.
    pub(crate) async fn next_line(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let end = memchr::memchr(b'\n', &self.unread[self.searched..]).map(|at| self.searched + at);
            if let Some(end) = end {
                let mut line = self.unread.split_to(end + 1);
                line.truncate(end);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.unread.len();
            match self.body.frame().await.transpose().map_err(io::Error::other)? {
                Some(frame) => self.unread.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                None if self.unread.is_empty() => return Ok(None),
                // The last line may lack its end.
                None => {
                    self.searched = 0;
                    return Ok(Some(self.unread.split().freeze()));
                }
            }
        }
    }

    /// Returns whether another process has taken the place of the one that sends this answer.
    pub(crate) fn is_superseded(&self) -> bool {
        socket_inode(&self.socket).is_ok_and(|inode| inode != self.inode)
    }
}

/// Sends a GET to the process in `run_dir`, and returns its answer line by line. An answer with an error status is an
/// error of the kind `InvalidInput` with its text.
pub(crate) async fn open_stream(run_dir: &Path, path: &str) -> io::Result<LineStream> {
    let socket = run_dir.join(SOCKET_NAME);
    loop {
        let inode = socket_inode(&socket)?;
        let answer = send(&socket, Method::GET, path, String::new()).await?;
        // Otherwise another process took over meanwhile, and either of the two may have answered.
        if socket_inode(&socket).is_ok_and(|now| now != inode) {
            continue;
        }
        if answer.status() != StatusCode::OK {
            let text = read_text(answer).await?;
            return Err(io::Error::new(ErrorKind::InvalidInput, text.trim_end()));
        }
        let body = answer.into_body();
        return Ok(LineStream { body, unread: BytesMut::new(), searched: 0, socket, inode });
    }
}

/// Sends a request to the process in `run_dir`, with a JSON body unless it is empty, and reads the whole answer.
pub(crate) async fn request(run_dir: &Path, method: Method, path: &str, json: String) -> io::Result<AdminResponse> {
    let answer = send(&run_dir.join(SOCKET_NAME), method, path, json).await?;
    let status = answer.status().as_u16();
    Ok(AdminResponse { status, body: read_text(answer).await? })
}

async fn send(socket: &Path, method: Method, path: &str, json: String) -> io::Result<Response<Incoming>> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
    // Ends with the answer's body, and reports its error there too.
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "diglot");
    if !json.is_empty() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let request = request.body(Full::new(Bytes::from(json))).map_err(io::Error::other)?;
    sender.send_request(request).await.map_err(io::Error::other)
}

async fn read_text(answer: Response<Incoming>) -> io::Result<String> {
    let body = answer.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn socket_inode(socket: &Path) -> io::Result<u64> {
    fs::metadata(socket).map(|file| file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use futures_util::stream;
    use std::convert::Infallible;

    #[tokio::test]
    async fn returns_lines_however_their_bytes_arrive() {
        let run_dir = std::env::temp_dir().join(format!("diglot-lines-{}", std::process::id()));
        fs::create_dir_all(&run_dir).expect("a folder");
        let socket = run_dir.join(SOCKET_NAME);
        let _ = fs::remove_file(&socket);
        let pieces = ["one\ntw", "o\n\nth", "re", "e"].map(|piece| Ok::<_, Infallible>(Bytes::from(piece)));
        let lines = get(move || async move { Body::from_stream(stream::iter(pieces)) });
        let router = Router::new().route("/lines", lines).route("/text", get(|| async { "text" }));
        let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
        tokio::spawn(async move { axum::serve(listener, router).await });

        let mut stream = open_stream(&run_dir, "/lines").await.expect("a stream");
        let mut found = Vec::new();
        while let Some(line) = stream.next_line().await.expect("a line") {
            found.push(String::from_utf8_lossy(&line).into_owned());
        }
        assert_eq!(found, ["one", "two", "", "three"]);
        assert!(!stream.is_superseded());
        let refused = open_stream(&run_dir, "/none").await.expect_err("404");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        let answer = request(&run_dir, Method::GET, "/text", String::new()).await.expect("an answer");
        assert_eq!((answer.status, answer.body.as_str()), (200, "text"));

        fs::remove_file(&socket).expect("a file");
        let _other = tokio::net::UnixListener::bind(&socket).expect("a socket");
        let _ = fs::remove_dir_all(&run_dir);
    }
}
