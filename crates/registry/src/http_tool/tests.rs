use serde_json::json;

use super::*;

fn parameter(place: ParameterPlace, style: ParameterStyle, explode: bool) -> HttpParameter {
    let (name, argument) = ("color".to_owned(), "color".to_owned());
    HttpParameter { name, argument, place, style, explode, allow_reserved: false }
}

fn operation(parameters: Vec<HttpParameter>, path: &str) -> HttpOperation {
    HttpOperation {
        name: "op".into(),
        method: "GET".into(),
        server: "https://api.example/v1".into(),
        path: path.into(),
        parameters,
        body: None,
        credentials: Vec::new(),
    }
}

/// The URL that a value of `color` makes.
fn url(place: ParameterPlace, style: ParameterStyle, explode: bool, value: &Value) -> String {
    let path = if place == ParameterPlace::Path { "/x/{color}" } else { "/x" };
    let operation = operation(vec![parameter(place, style, explode)], path);
    assert_eq!(operation.problems(), [""; 0]);
    let args = json!({"color": value});
    let request = operation.request(args.as_object().unwrap());
    request.map_or_else(
        |problems| problems.join("; "),
        |request| request.url.strip_prefix("https://api.example/v1/x").unwrap().to_owned(),
    )
}

/// The table of examples of the OpenAPI specification, 3.1 "Style Examples".
#[test]
fn styles_are_written_as_the_specification_shows() {
    use ParameterPlace::{Path, Query};
    use ParameterStyle as S;
    let (text, list) = (json!("blue"), json!(["blue", "black", "brown"]));
    let object = json!({"R": 100, "G": 200, "B": 150});
    for (place, style, explode, value, expected) in [
        (Path, S::Matrix, false, &text, "/;color=blue"),
        (Path, S::Matrix, false, &list, "/;color=blue,black,brown"),
        (Path, S::Matrix, false, &object, "/;color=B,150,G,200,R,100"),
        (Path, S::Matrix, true, &list, "/;color=blue;color=black;color=brown"),
        (Path, S::Matrix, true, &object, "/;B=150;G=200;R=100"),
        (Path, S::Label, false, &text, "/.blue"),
        (Path, S::Label, false, &list, "/.blue,black,brown"),
        (Path, S::Label, true, &list, "/.blue.black.brown"),
        (Path, S::Label, true, &object, "/.B=150.G=200.R=100"),
        (Path, S::Simple, false, &text, "/blue"),
        (Path, S::Simple, false, &list, "/blue,black,brown"),
        (Path, S::Simple, false, &object, "/B,150,G,200,R,100"),
        (Path, S::Simple, true, &object, "/B=150,G=200,R=100"),
        (Query, S::Form, false, &text, "?color=blue"),
        (Query, S::Form, false, &list, "?color=blue,black,brown"),
        (Query, S::Form, false, &object, "?color=B,150,G,200,R,100"),
        (Query, S::Form, true, &list, "?color=blue&color=black&color=brown"),
        (Query, S::Form, true, &object, "?B=150&G=200&R=100"),
        (Query, S::SpaceDelimited, false, &list, "?color=blue%20black%20brown"),
        (Query, S::PipeDelimited, false, &list, "?color=blue%7Cblack%7Cbrown"),
        (Query, S::DeepObject, true, &object, "?color[B]=150&color[G]=200&color[R]=100"),
        (Query, S::Json, false, &list, "?color=%5B%22blue%22%2C%22black%22%2C%22brown%22%5D"),
    ] {
        let mut found = url(place, style, explode, value);
        // Members of an object have no order.
        let mut expected = expected.to_owned();
        if value.is_object() {
            let sorted = |text: &str| {
                let mut letters: Vec<_> = text.chars().collect();
                letters.sort_unstable();
                letters.into_iter().collect::<String>()
            };
            (found, expected) = (sorted(&found), sorted(&expected));
        }
        assert_eq!(found, expected, "{place:?} {style:?} {explode}");
    }
}

#[test]
fn values_cannot_leave_their_place() {
    use ParameterPlace::{Path, Query};
    use ParameterStyle as S;
    let hostile = json!("../../admin?x=1#y");
    assert_eq!(url(Path, S::Simple, false, &hostile), "/..%2F..%2Fadmin%3Fx%3D1%23y");
    assert_eq!(url(Path, S::Simple, false, &json!("..")), "`color`: must not be a dot or two");
    assert_eq!(url(Path, S::Simple, false, &json!("")), "`color`: must not be empty");
    assert_eq!(url(Query, S::Form, true, &json!("a&b=c d")), "?color=a%26b%3Dc%20d");
    let nested = url(Query, S::Form, true, &json!([[1]]));
    assert!(nested.contains("cannot be written"), "{nested}");
    let header = operation(vec![parameter(ParameterPlace::Header, S::Simple, false)], "/x");
    let args = json!({"color": "a\r\nX-Evil: 1"});
    assert!(header.request(args.as_object().unwrap()).is_err());
}

#[test]
fn header_cookies_and_bodies_are_written() {
    use ParameterStyle as S;
    let mut cookie = parameter(ParameterPlace::Cookie, S::Form, false);
    cookie.name = "session".into();
    let mut operation =
        operation(vec![parameter(ParameterPlace::Header, S::Simple, false), cookie], "/x");
    operation.method = "POST".into();
    operation.body = Some(HttpBody {
        argument: "body".into(),
        kind: BodyKind::Form,
        media_type: "application/x-www-form-urlencoded".into(),
    });
    let args = json!({"color": ["a", "b"], "body": {"q": "x y", "n": [1, 2], "none": null}});
    let request = operation.request(args.as_object().unwrap()).unwrap();
    let text = String::from_utf8(request.body.unwrap()).unwrap();
    let mut pairs: Vec<_> = text.split('&').collect();
    pairs.sort_unstable();
    assert_eq!(pairs, ["n=1", "n=2", "q=x+y"]);
    assert_eq!(
        request.headers,
        [
            ("color".to_owned(), "a,b".to_owned()),
            ("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
            ("Cookie".to_owned(), "session=a,b".to_owned()),
        ]
    );
    operation.body.as_mut().unwrap().kind = BodyKind::Multipart;
    let request = operation.request(args.as_object().unwrap()).unwrap();
    let text = String::from_utf8(request.body.unwrap()).unwrap();
    assert!(text.contains("form-data; name=\"q\"\r\n\r\nx y\r\n"), "{text}");
    let media = &request.headers.iter().find(|(name, _)| name == "Content-Type").unwrap().1;
    let boundary = media.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert!(text.ends_with(&format!("--{boundary}--\r\n")), "{text}");
}

#[test]
fn what_only_the_client_sets_cannot_be_a_parameter() {
    let mut host = parameter(ParameterPlace::Header, ParameterStyle::Simple, false);
    host.name = "Host".into();
    let operation = operation(vec![host], "/x/{id}");
    let problems = operation.problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
}
