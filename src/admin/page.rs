//! The files of the inspector's page, embedded in the program.

use axum::Router;
use axum::http::header;
use axum::routing::get;

macro_rules! page_files {
    ($($name:literal),+ $(,)?) => { &[$(($name, include_str!(concat!("page/", $name)))),+] };
}

const FILES: &[(&str, &str)] = page_files![
    "api.mjs",
    "both_sides.mjs",
    "capture.mjs",
    "client_fold.mjs",
    "config_check.mjs",
    "conversation.mjs",
    "dom.mjs",
    "filter.mjs",
    "filter_box.mjs",
    "gateway.zh.mjs",
    "gateway_texts.mjs",
    "gateway_words.mjs",
    "golden_case.mjs",
    "icon.svg",
    "index.html",
    "json_members.mjs",
    "json_patch.mjs",
    "list_cause.mjs",
    "main.mjs",
    "messages.en.mjs",
    "messages.mjs",
    "messages.zh.mjs",
    "metrics.mjs",
    "numbers.mjs",
    "playground_api.mjs",
    "playground_parts.mjs",
    "playground_session.mjs",
    "playground_view.mjs",
    "row_book.mjs",
    "row_detail.mjs",
    "row_lines.mjs",
    "run_store.mjs",
    "run_view.mjs",
    "runs_view.mjs",
    "secrets.mjs",
    "style.css",
    "take_along.mjs",
    "throughput_view.mjs",
    "verdict.mjs",
    "virtual_list.mjs",
    "visible_text.mjs",
    "waterfall.mjs",
    "widgets.mjs",
];

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

#[cfg(test)]
mod tests {
    use super::FILES;
    use crate::error::RejectionKind;
    use crate::event::{EventLoss, EventRepair};

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/admin/page");
        let files = std::fs::read_dir(folder).expect("the page").map(|file| file.expect("a file").file_name());
        let mut names: Vec<String> = files.map(|name| name.into_string().expect("UTF-8")).collect();
        names.sort();
        assert_eq!(names, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn sentences_of_the_tables_have_a_chinese_form() {
        let (_, chinese) = FILES.iter().find(|(name, _)| *name == "gateway.zh.mjs").expect("the sentences");
        let findings = |description: &'static str, rule: Option<&'static str>| std::iter::once(description).chain(rule);
        let repairs = EventRepair::ALL.iter().flat_map(|one| findings(one.description(), one.rule()));
        let losses = EventLoss::ALL.iter().flat_map(|one| findings(one.description(), one.rule()));
        let rejections = RejectionKind::ALL.iter().flat_map(|kind| [kind.text(), kind.hint()]);
        for sentence in repairs.chain(losses).chain(rejections) {
            assert!(chinese.contains(&format!("\n  \"{sentence}\":")), "{sentence:?} lacks a Chinese form");
        }
    }
}
