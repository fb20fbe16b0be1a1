// A Google Cloud Storage to test against: fake-gcs-server, with the XML API that it lacks.
//
// fake-gcs-server keeps the objects and answers GET, HEAD and DELETE, gzip and all. Its XML API has neither uploads nor
// conditions nor pages of a listing, which are here as the reference of Google's XML API describes them:
// PUT with x-goog-if-generation-match, uploads in parts, ListObjects version 2, If-Match and If-None-Match.
//
//	gcs ADDRESS BUCKET...
package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

type gcs struct {
	mu      sync.Mutex // held while a condition is checked and the object replaced
	store   *fakestorage.Server
	uploads map[string]*upload
}

type upload struct {
	header http.Header
	parts  map[int][]byte
}

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	address := listener.Addr().String()
	store, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: address})
	if err != nil {
		log.Fatal(err)
	}
	for _, bucket := range os.Args[2:] {
		store.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	}
	log.Fatal(http.Serve(listener, &gcs{store: store, uploads: map[string]*upload{}}))
}

func (g *gcs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	id := query.Get("uploadId")
	if _, err := g.store.Backend().GetBucket(bucket); err != nil {
		fail(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	switch {
	case key == "" && r.Method == http.MethodGet:
		g.list(w, bucket, query.Get)
	case r.Method == http.MethodPost && query.Has("uploads"):
		id := fmt.Sprint(len(g.uploads) + 1)
		g.uploads[id] = &upload{header: r.Header.Clone(), parts: map[int][]byte{}}
		answer(w, "InitiateMultipartUploadResult", struct{ UploadId string }{id})
	case id != "":
		g.part(w, r, bucket, key, id)
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			fail(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		if g.put(w, r, bucket, key, r.Header, body) {
			w.WriteHeader(http.StatusOK)
		}
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		if g.wanted(w, r, bucket, key) {
			g.store.HTTPHandler().ServeHTTP(w, r)
		}
	default:
		g.store.HTTPHandler().ServeHTTP(w, r)
	}
}

// wanted says whether the conditions of a read hold, and answers if not.
func (g *gcs) wanted(w http.ResponseWriter, r *http.Request, bucket, key string) bool {
	object, err := g.store.GetObject(bucket, key)
	if err != nil {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return false
	}
	etag := fmt.Sprintf("%q", object.Etag)
	if match := r.Header.Get("If-Match"); match != "" && match != etag {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return false
	}
	if match := r.Header.Get("If-None-Match"); match == etag {
		w.WriteHeader(http.StatusNotModified)
		return false
	}
	return true
}

// put replaces an object if its condition holds and sets the headers of the answer; otherwise it answers.
func (g *gcs) put(w http.ResponseWriter, r *http.Request, bucket, key string, header http.Header, body []byte) bool {
	generation := int64(0)
	if object, err := g.store.GetObject(bucket, key); err == nil {
		generation = object.Generation
	}
	if match := r.Header.Get("x-goog-if-generation-match"); match != "" && match != strconv.FormatInt(generation, 10) {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return false
	}
	metadata := map[string]string{}
	for name, values := range header {
		if own, ok := strings.CutPrefix(strings.ToLower(name), "x-goog-meta-"); ok {
			metadata[own] = values[0]
		}
	}
	g.store.CreateObject(fakestorage.Object{Content: body, ObjectAttrs: fakestorage.ObjectAttrs{
		BucketName: bucket, Name: key, Metadata: metadata,
		ContentType: header.Get("Content-Type"), ContentEncoding: header.Get("Content-Encoding"),
		ContentDisposition: header.Get("Content-Disposition"), ContentLanguage: header.Get("Content-Language"),
		CacheControl: header.Get("Cache-Control"),
	}})
	object, err := g.store.GetObject(bucket, key)
	if err != nil {
		fail(w, http.StatusInternalServerError, "InternalError")
		return false
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", object.Etag))
	w.Header().Set("x-goog-generation", strconv.FormatInt(object.Generation, 10))
	return true
}

// part answers what concerns one upload in parts.
func (g *gcs) part(w http.ResponseWriter, r *http.Request, bucket, key, id string) {
	under := g.uploads[id]
	body, err := io.ReadAll(r.Body)
	switch {
	case under == nil:
		fail(w, http.StatusNotFound, "NoSuchUpload")
	case err != nil:
		fail(w, http.StatusBadRequest, "IncompleteBody")
	case r.Method == http.MethodDelete:
		delete(g.uploads, id)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		number, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		under.parts[number] = body
		w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint("part-", number)))
		w.WriteHeader(http.StatusOK)
	default:
		var asked struct {
			Part []struct {
				PartNumber int
				ETag       string
			}
		}
		if xml.Unmarshal(body, &asked) != nil {
			fail(w, http.StatusBadRequest, "MalformedCompleteRequest")
			return
		}
		var whole bytes.Buffer
		for _, part := range asked.Part {
			bytes, ok := under.parts[part.PartNumber]
			if !ok || part.ETag != fmt.Sprintf("%q", fmt.Sprint("part-", part.PartNumber)) {
				fail(w, http.StatusBadRequest, "InvalidPart")
				return
			}
			whole.Write(bytes)
		}
		if g.put(w, r, bucket, key, under.header, whole.Bytes()) {
			delete(g.uploads, id)
			answer(w, "CompleteMultipartUploadResult", struct{ Bucket, Key, ETag string }{bucket, key, w.Header().Get("ETag")})
		}
	}
}

type contents struct {
	Key, ETag, LastModified string
	Size                    int64
}

type page struct {
	Contents              []contents
	CommonPrefixes        []struct{ Prefix string }
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
}

func (g *gcs) list(w http.ResponseWriter, bucket string, parameter func(string) string) {
	objects, _, err := g.store.ListObjectsWithOptions(bucket, fakestorage.ListOptions{Prefix: parameter("prefix")})
	if err != nil {
		fail(w, http.StatusInternalServerError, "InternalError")
		return
	}
	sort.Slice(objects, func(a, b int) bool { return objects[a].Name < objects[b].Name })
	limit, err := strconv.Atoi(parameter("max-keys"))
	if err != nil || limit > 1000 {
		limit = 1000
	}
	// A token is the last line of the page before.
	after := max(parameter("start-after"), parameter("continuation-token"))
	prefix, delimiter := parameter("prefix"), parameter("delimiter")
	var page page
	last := ""
	for _, object := range objects {
		line := object.Name
		if at := strings.Index(line[len(prefix):], delimiter); delimiter != "" && at >= 0 {
			line = line[:len(prefix)+at+len(delimiter)]
		}
		if line <= after || line == last {
			continue
		}
		if len(page.Contents)+len(page.CommonPrefixes) == limit {
			page.IsTruncated, page.NextContinuationToken = true, last
			break
		}
		last = line
		if line != object.Name {
			page.CommonPrefixes = append(page.CommonPrefixes, struct{ Prefix string }{line})
			continue
		}
		page.Contents = append(page.Contents, contents{
			Key: line, ETag: fmt.Sprintf("%q", object.Etag), Size: object.Size,
			LastModified: object.Updated.UTC().Format("2006-01-02T15:04:05.000Z"),
		})
	}
	answer(w, "ListBucketResult", page)
}

func answer(w http.ResponseWriter, name string, body any) {
	w.Header().Set("Content-Type", "application/xml; charset=UTF-8")
	if err := xml.NewEncoder(w).EncodeElement(body, xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		log.Print(err)
	}
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml; charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, http.StatusText(status))
}
