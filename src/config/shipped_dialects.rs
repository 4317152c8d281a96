//! The dialect files that ship with Diglot, built in for the commands, which then need no path.

/// Names and texts, which [`super::load`] compiles.
pub(crate) const SHIPPED_DIALECTS: &[(&str, &str)] = &[
    ("openai-chat", include_str!("../../config/dialects/openai-chat.yaml")),
    ("dify-chat", include_str!("../../config/dialects/dify-chat.yaml")),
    ("coze-chat", include_str!("../../config/dialects/coze-chat.yaml")),
];

/// Returns where the file of a dialect is in the image.
pub(crate) fn image_path(name: &str) -> String {
    format!("/usr/share/diglot/dialects/{name}.yaml")
}
