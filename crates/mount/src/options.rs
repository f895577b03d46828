//! Options of a mount, as `mount -o` takes them.

use std::str::FromStr;

use fuser::MountOption;

/// How the kernel mounts: words that `mount -o` knows, with commas in between.
///
/// `allow_other` is for users other than root, whose mounts are for themselves alone otherwise.
/// Permissions are always checked by the kernel: `default_permissions` changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    pub(crate) kernel: Vec<MountOption>,
    pub(crate) allows_others: bool,
    pub(crate) is_read_only: bool,
}

impl FromStr for MountOptions {
    type Err = String;

    /// # Errors
    /// Which word is not known, and which ones are.
    fn from_str(words: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words.split(',').filter(|word| !word.is_empty()) {
            let option = match word {
                "ro" => MountOption::RO,
                "rw" => MountOption::RW,
                "nosuid" => MountOption::NoSuid,
                "suid" => MountOption::Suid,
                "nodev" => MountOption::NoDev,
                "dev" => MountOption::Dev,
                "noexec" => MountOption::NoExec,
                "exec" => MountOption::Exec,
                "allow_other" => {
                    options.allows_others = true;
                    continue;
                }
                "default_permissions" => continue,
                _ => {
                    return Err(format!(
                        "{word} is not known; there are ro, rw, nosuid, suid, nodev, dev, noexec, \
                         exec, allow_other and default_permissions"
                    ));
                }
            };
            options.is_read_only = match option {
                MountOption::RO => true,
                MountOption::RW => false,
                _ => options.is_read_only,
            };
            options.kernel.push(option);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options() {
        let options: MountOptions = "ro,nosuid,allow_other,default_permissions".parse().unwrap();
        assert_eq!(options.kernel, [MountOption::RO, MountOption::NoSuid]);
        assert!(options.allows_others && options.is_read_only);
        assert_eq!("".parse(), Ok(MountOptions::default()));
        let refused = "ro,quick".parse::<MountOptions>().unwrap_err();
        assert!(refused.starts_with("quick is not known"), "{refused}");
    }
}
