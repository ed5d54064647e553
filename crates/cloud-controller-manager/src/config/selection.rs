//! Which controllers run: `--controllers`, with upstream's rules and aliases.

use cloud_provider::nearest;

use crate::app::controllers::TABLE;

/// A list of names, with `*` and `-name`, all of them canonical. The first match in the list counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection(Vec<String>);

impl Selection {
    /// Reads the list; every name in it must be a controller's, or an alias of one.
    pub fn read(list: &[String]) -> Result<Self, Vec<String>> {
        let (mut names, mut errors) = (Vec::new(), Vec::new());
        for given in list.iter().map(|given| given.trim()).filter(|given| !given.is_empty()) {
            let (sign, name) = given.strip_prefix('-').map_or(("", given), |name| ("-", name));
            match canonical(name) {
                _ if given == "*" => names.push(given.to_owned()),
                Some(name) => names.push(format!("{sign}{name}")),
                None => errors.push(unknown(name)),
            }
        }
        if errors.is_empty() { Ok(Self(names)) } else { Err(errors) }
    }

    /// Whether the controller of this canonical name runs.
    pub fn enables(&self, name: &str) -> bool {
        let named = self.0.iter().find_map(|each| match each.strip_prefix('-') {
            Some(off) => (off == name).then_some(false),
            None => (each == name).then_some(true),
        });
        named.unwrap_or_else(|| self.0.iter().any(|each| each == "*"))
    }
}

/// The name that a controller goes by, whichever of its names is given.
pub fn canonical(name: &str) -> Option<&'static str> {
    TABLE.iter().find(|row| row.name == name || row.aliases.contains(&name)).map(|row| row.name)
}

fn unknown(name: &str) -> String {
    let names = TABLE.iter().flat_map(|row| std::iter::once(&row.name).chain(row.aliases)).copied();
    let hint =
        nearest::nearest(name, names).map_or(String::new(), |near| format!(": did you mean {near:?}?"));
    format!("--controllers: {name:?} is not in the list of known controllers{hint}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NODE: &str = "cloud-node-controller";
    const LIFECYCLE: &str = "cloud-node-lifecycle-controller";

    fn read(list: &str) -> Result<Selection, Vec<String>> {
        Selection::read(&list.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    /// Proves: APP-16
    #[rstest]
    #[case("*", true, true)]
    #[case("*,-cloud-node", false, true)]
    #[case("-cloud-node-controller,*", false, true)]
    #[case("cloud-node,-cloud-node", true, false)]
    #[case("-cloud-node,cloud-node", false, false)]
    #[case("cloud-node-lifecycle", false, true)]
    #[case("", false, false)]
    fn the_first_match_counts_and_aliases_are_names(
        #[case] list: &str,
        #[case] node: bool,
        #[case] lifecycle: bool,
    ) {
        let selection = read(list).unwrap();
        assert_eq!((selection.enables(NODE), selection.enables(LIFECYCLE)), (node, lifecycle));
    }

    /// Proves: APP-6
    #[test]
    fn unknown_names_are_all_told_and_the_nearest_is_suggested() {
        let errors = read("*,-cloud-nod,unicorn").unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].contains("did you mean \"cloud-node\"?"), "{errors:?}");
    }
}
