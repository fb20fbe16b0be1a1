//! What stands around s3s: the kind of a request's signature, upload forms, cross-origin answers, and details of its
//! answers that clients look at.

use http::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT,
    HOST, ORIGIN,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use s3s::service::S3Service;
use s3s::{Body, HttpError, HttpRequest, HttpResponse, S3Error, s3_error};

use super::authentication::Signature;
use super::buffered::hold_form;
use super::cors::{self, Asked};
use super::form_head::Head;
use super::grant::authorise;
use super::watched::Watched;
use super::{Edge, admit, authenticated, chunked, version_2};
use crate::admission::{Turns, WorkTurn};
use crate::keyring::Right;
use crate::store::CorsRule;

/// The id of a request, given in its extensions: errors carry it in their body.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub String);

/// The S3 service of a node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Service {
    inner: S3Service,
    /// The same for upload forms.
    of_forms: S3Service,
    edge: Edge,
    /// Whether signatures of version 2 are accepted.
    version_2: bool,
    /// Forms that may be received, as each is in memory.
    forms: Turns,
}

/// What is kept of a request for its answer.
struct Asking {
    id: Option<String>,
    path: String,
    attributes: bool,
    /// It waits for the node's word before it sends its body.
    expects: bool,
    /// Bucket, origin and method of a page's request.
    origin: Option<(String, String, Method)>,
}

impl Service {
    pub fn new(inner: S3Service, of_forms: S3Service, edge: Edge, version_2: bool) -> Self {
        let forms = Turns::new(edge.limits.forms, edge.limits.key_share(edge.limits.forms));
        Self { inner, of_forms, edge, version_2, forms }
    }

    /// Answers a request.
    pub async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let asking = self.asking(&request);
        let (request, body) = Watched::over(request);
        let request = chunked::in_small_chunks(request, &self.edge.keys.now());
        let empty = body.is_over();
        let signature = self.signature(&request);
        let mut response = match signature {
            Err(error) => plain(error)?,
            Ok(_) if request.method() == Method::OPTIONS => self.preflight(&request).await.map_or_else(plain, Ok)?,
            Ok(Signature::Form) => match self.begin_form(request).await {
                Ok((request, _turn)) => self.of_forms.call(request).await?,
                Err(error) => plain(error)?,
            },
            Ok(signature) => {
                let mut request = request;
                request.extensions_mut().insert(signature);
                self.inner.call(chunked::with_trailer(request)).await?
            }
        };
        if let Some((bucket, origin, method)) = &asking.origin {
            let rules = self.rules(bucket).await;
            let allowed = cors::answer(&rules, Asked { origin, method: method.as_str(), headers: "" });
            response.headers_mut().extend(allowed.unwrap_or_default());
        }
        asking.finish(&mut response);
        if !body.is_over() || (asking.expects && (empty || response.status().is_client_error())) {
            // What is left of it would be taken for the next request; and boto3, having waited for a word that is
            // not given for empty bodies, misreads the answer to its next request.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// The kind of the request's signature. One of version 2 is verified here, in constant time.
    fn signature<B>(&self, request: &Request<B>) -> Result<Signature, S3Error> {
        let signature = Signature::of(request, self.version_2)?;
        if signature == Signature::AddressVersion2 {
            let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
            let bucket = host.and_then(|host| self.edge.domains.bucket(host));
            version_2::verify(request, &self.edge.keys.now(), bucket.as_deref())?;
        }
        Ok(signature)
    }

    /// Authorises an upload form by its fields; a byte of its file is read only after that. The turn is one of those that bound
    /// the files in memory.
    async fn begin_form(&self, request: HttpRequest) -> Result<(HttpRequest, WorkTurn), S3Error> {
        let edge = &self.edge;
        let (mut parts, mut body) = request.into_parts();
        let head = Head::read(&parts.headers, &mut body).await?;
        let signer = head.verify(&edge.keys.now(), self.version_2)?;
        authenticated(&parts.extensions);
        let (Some(bucket), false) = edge.domains.bucket_of(&parts.uri, &parts.headers) else {
            return Err(s3_error!(MethodNotAllowed, "a form is sent to a bucket"));
        };
        let asked = (Right::Write, bucket.as_str());
        let given = authorise(&edge.keys, &*edge.store, &edge.limits, Some(&signer), asked, false).await?;
        admit(&mut parts.extensions, &edge.keys, &signer).await?;
        let turn = self.forms.take(&signer.access_key, edge.limits.request_wait).await;
        let turn =
            turn.ok_or_else(|| s3_error!(SlowDown, "{} forms are being received; try again", edge.limits.forms))?;
        parts.extensions.insert(given);
        parts.extensions.insert(hold_form(&parts.headers, &edge.limits, &edge.memory.bodies(&signer.access_key))?);
        if let Some(tagging) = head.tagging() {
            parts.extensions.insert(tagging);
        }
        // The form is written anew, and s3s does not ask for it.
        parts.headers.remove(CONTENT_LENGTH);
        Ok((HttpRequest::from_parts(parts, head.into_body(body)), turn))
    }

    fn asking<B>(&self, request: &Request<B>) -> Asking {
        let origin = request.headers().get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let origin = origin.filter(|_| request.method() != Method::OPTIONS);
        let bucket = origin.and_then(|_| self.edge.domains.bucket_of(request.uri(), request.headers()).0);
        Asking {
            id: request.extensions().get::<RequestId>().map(|id| id.0.clone()),
            path: request.uri().path().to_owned(),
            expects: request.headers().contains_key(EXPECT),
            attributes: request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "attributes")),
            origin: bucket.zip(origin).map(|(bucket, origin)| (bucket, origin.to_owned(), request.method().clone())),
        }
    }

    /// No rules where there is no such bucket: it is not told to everyone which there are.
    async fn rules(&self, bucket: &str) -> Vec<CorsRule> {
        self.edge.store.bucket(bucket).await.ok().and_then(|bucket| bucket.settings.cors).unwrap_or_default()
    }

    /// Browsers ask unsigned what a page may do.
    async fn preflight<B>(&self, request: &Request<B>) -> Result<HttpResponse, S3Error> {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        let origin = header(ORIGIN)
            .ok_or_else(|| s3_error!(InvalidRequest, "Insufficient information. Origin request header needed."))?;
        let method = header(ACCESS_CONTROL_REQUEST_METHOD)
            .ok_or_else(|| s3_error!(InvalidRequest, "Invalid Access-Control-Request-Method: null"))?;
        let asked = Asked { origin, method, headers: header(ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default() };
        let rules = match self.edge.domains.bucket_of(request.uri(), request.headers()).0 {
            Some(bucket) => self.rules(&bucket).await,
            None => Vec::new(),
        };
        let allowed = cors::answer(&rules, asked)
            .ok_or_else(|| s3_error!(AccessDenied, "CORSResponse: This CORS request is not allowed."))?;
        let mut response = Response::new(Body::empty());
        response.headers_mut().extend(allowed);
        Ok(response)
    }
}

fn plain(error: S3Error) -> Result<HttpResponse, HttpError> {
    error.to_http_response().map_err(|error| HttpError::new(Box::new(error)))
}

impl Asking {
    fn finish(&self, response: &mut HttpResponse) {
        let failed = response.status().is_client_error() || response.status().is_server_error();
        if !failed && !self.attributes {
            return;
        }
        let is_xml = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/xml");
        let text = response.body().bytes().filter(|_| is_xml).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let Some(text) = text else { return };
        let mut text = if failed { self.sign(&text) } else { bare_etag(&text) };
        // s3s takes a form that its policy does not allow for a malformed policy.
        let denied = "<Code>InvalidPolicyDocument</Code><Message>Policy condition";
        if failed && text.contains(denied) {
            text = text.replacen(denied, "<Code>AccessDenied</Code><Message>Invalid according to Policy: condition", 1);
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        // The body of an answer has the length that its header says.
        response.headers_mut().remove(http::header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(text);
        if response.status() == StatusCode::NOT_MODIFIED {
            *response.body_mut() = Body::empty();
        }
    }

    /// An error says which request it answers, and in words what is wrong.
    fn sign(&self, text: &str) -> String {
        let silent = !text.contains("<Message>");
        let message = MESSAGES.iter().find(|(code, _)| silent && text.contains(&format!("<Code>{code}</Code>")));
        let text = &message.map_or_else(
            || text.to_owned(),
            |(_, message)| text.replacen("</Code>", &format!("</Code><Message>{message}</Message>"), 1),
        );
        let id = self.id.as_deref().unwrap_or_default();
        let about = format!("<Resource>{}</Resource><RequestId>{id}</RequestId></Error>", escaped(&self.path));
        printable(&text.replacen("</Error>", &about, 1))
    }
}

/// What s3s refuses without a word, in S3's words.
const MESSAGES: [(&str, &str); 6] = [
    ("InvalidBucketName", "The specified bucket is not valid."),
    ("InvalidURI", "Couldn't parse the specified URI."),
    ("KeyTooLongError", "Your key is too long."),
    ("MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema."),
    ("MissingContentLength", "You must provide the Content-Length HTTP header."),
    ("MissingRequestBodyError", "Request body is empty."),
];

/// GetObjectAttributes is the one operation that writes ETags without quotes.
fn bare_etag(text: &str) -> String {
    let quote = |at: &str| at.replace("<ETag>\"", "<ETag>").replace("\"</ETag>", "</ETag>");
    quote(&text.replace("<ETag>&quot;", "<ETag>").replace("&quot;</ETag>", "</ETag>"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What keys may hold and XML may not, as replacement characters.
fn printable(text: &str) -> String {
    let allowed = |c: char| c >= ' ' && c != '\u{FFFE}' && c != '\u{FFFF}' || matches!(c, '\t' | '\n' | '\r');
    text.chars().map(|c| if allowed(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_request() {
        let asking =
            Asking { id: Some("7".into()), path: "/b/<k>&".into(), expects: false, attributes: false, origin: None };
        let signed = asking.sign("<Error><Code>X</Code></Error>");
        assert_eq!(
            signed,
            "<Error><Code>X</Code><Resource>/b/&lt;k&gt;&amp;</Resource><RequestId>7</RequestId></Error>"
        );
        let worded = asking.sign("<Error><Code>InvalidURI</Code></Error>");
        assert!(worded.starts_with("<Error><Code>InvalidURI</Code><Message>Couldn't parse"), "{worded}");
        let kept = asking.sign("<Error><Code>InvalidURI</Code><Message>x</Message></Error>");
        assert!(kept.contains("<Message>x</Message>") && !kept.contains("parse"), "{kept}");
        assert_eq!(bare_etag("<ETag>\"a\"</ETag>"), "<ETag>a</ETag>");
        assert_eq!(bare_etag("<ETag>&quot;a&quot;</ETag>"), "<ETag>a</ETag>");
    }
}
