//! The files of the inspector's page, embedded in the program.

use axum::Router;
use axum::http::header;
use axum::routing::get;

macro_rules! page_files {
    ($($name:literal),+ $(,)?) => { &[$(($name, include_str!(concat!("page/", $name)))),+] };
}

const FILES: &[(&str, &str)] = page_files!["index.html", "style.css"];

/// Serves the page to anyone: it contains no data, and its scripts need the token.
pub(super) fn router() -> Router {
    FILES.iter().fold(Router::new(), |router, (name, text)| {
        let path = if *name == "index.html" { "/".to_owned() } else { format!("/page/{name}") };
        router.route(&path, get(move || async move { ([(header::CONTENT_TYPE, media_type(name))], *text) }))
    })
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    }
}
