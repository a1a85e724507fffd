//! The types of a method's parameters, as the JVM writes them.

/// Counts the parameters of a descriptor, as 2 of `I[Ljava/lang/String;`; `None`: it is not one.
pub fn parameters(descriptor: &str) -> Option<usize> {
    let mut rest = descriptor;
    let mut count = 0;
    while !rest.is_empty() {
        let element = rest.trim_start_matches('[');
        rest = match element.split_at_checked(1)? {
            ("B" | "C" | "D" | "F" | "I" | "J" | "S" | "Z", behind) => behind,
            ("L", class) => match class.split_once(';')? {
                ("", _) => return None,
                (_, behind) => behind,
            },
            _ => return None,
        };
        count += 1;
    }
    Some(count)
}

/// The descriptor of parameters of these Java types, as `I[Ljava/lang/String;` of `int` and
/// `java.lang.String[]`. Arguments of a type, as in `java.util.List<int>`, are left out.
pub fn descriptor_of<'a>(types: impl IntoIterator<Item = &'a str>) -> String {
    let mut descriptor = String::new();
    for java_type in types {
        let (raw, behind) = java_type.split_once('<').unwrap_or((java_type, ""));
        let mut element = raw;
        // Behind type arguments only the brackets of an array can stand.
        let brackets = behind.rsplit_once('>').map_or("", |(_, brackets)| brackets);
        descriptor.extend(brackets.matches("[]").map(|_| '['));
        while let Some(inner) = element.strip_suffix("[]") {
            descriptor.push('[');
            element = inner;
        }
        match element {
            "byte" => descriptor.push('B'),
            "char" => descriptor.push('C'),
            "double" => descriptor.push('D'),
            "float" => descriptor.push('F'),
            "int" => descriptor.push('I'),
            "long" => descriptor.push('J'),
            "short" => descriptor.push('S'),
            "boolean" => descriptor.push('Z'),
            class => {
                descriptor.push('L');
                descriptor.extend(class.chars().map(|c| if c == '.' { '/' } else { c }));
                descriptor.push(';');
            }
        }
    }
    descriptor
}
