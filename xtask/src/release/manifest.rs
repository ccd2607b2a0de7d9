//! Reads what the packed core needs of the workspace's manifest: the profile of its builds.

/// Returns a section of a manifest, with its heading and comments, up to the next heading; `None` if it is missing.
pub fn section<'a>(manifest: &'a str, heading: &str) -> Option<&'a str> {
    let start =
        manifest.match_indices(heading).map(|(at, _)| at).find(|&at| at == 0 || manifest.as_bytes()[at - 1] == b'\n')?;
    let rest = &manifest[start..];
    let end = rest.find("\n[").map_or(rest.len(), |at| at + 1);
    Some(&rest[..end])
}

/// Returns the sections of a manifest that change the release profile for one package, of the packages in a lock file: cargo
/// warns of others.
pub fn package_profiles(manifest: &str, lock: &str) -> String {
    const BEFORE: &str = "[profile.release.package.";
    let headings = manifest.lines().filter(|line| line.starts_with(BEFORE));
    let locked = headings.filter(|heading| {
        let name = heading[BEFORE.len()..].trim_end_matches(']');
        lock.lines().any(|line| line == format!("name = \"{name}\""))
    });
    locked.filter_map(|heading| section(manifest, heading)).collect()
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

    #[test]
    fn packages_that_are_locked_have_their_profiles() {
        let manifest = "[profile.release]\nlto = \"fat\"\n[profile.release.package.a]\nopt-level = \"z\"\n\
                        [profile.release.package.b]\nopt-level = 1\n[profile.dev.package.a]\nopt-level = 0\n";
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n";
        assert_eq!(package_profiles(manifest, lock), "[profile.release.package.a]\nopt-level = \"z\"\n");
        assert_eq!(package_profiles(manifest, "name = \"ab\"\n"), "");
    }
}
