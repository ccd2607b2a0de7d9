//! Reads what the packed core needs of the workspace's manifest: the profile of its builds.

/// Returns a section of a manifest, with its heading and comments, up to the next heading; `None` if it is missing.
pub fn section<'a>(manifest: &'a str, heading: &str) -> Option<&'a str> {
    let start =
        manifest.match_indices(heading).map(|(at, _)| at).find(|&at| at == 0 || manifest.as_bytes()[at - 1] == b'\n')?;
    let rest = &manifest[start..];
    let end = rest.find("\n[").map_or(rest.len(), |at| at + 1);
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_one() {
        let manifest = "[a]\nx = 1\n# [b]\n\n[b]\ny = 2\n";
        assert_eq!(section(manifest, "[a]"), Some("[a]\nx = 1\n# [b]\n\n"));
        assert_eq!(section(manifest, "[b]"), Some("[b]\ny = 2\n"));
        assert_eq!(section(manifest, "[c]"), None);
    }
}
