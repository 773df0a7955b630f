// Counts the requests and bytes between clients and a server of objects, and can make each request wait.
//
//	go run count.go -listen 127.0.0.1:9100 -to http://127.0.0.1:9000 -latency 20ms
//
// GET /-/counts answers with what was counted since the last such request. Requests are named by their method and the
// folder they are about, as in "GET packs". Bytes are those on the connections of clients: heads and bodies.
//
// With -google, a server that speaks S3 understands Google Cloud Storage's XML dialect, as far as ibid uses it.
// Signatures are not checked: the buckets must be open to everyone.
//
// With -to tcp://127.0.0.1:22 it counts the bytes of any connections, and connections in place of requests.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// counts is what was asked since it was last told.
type counts struct {
	mutex    sync.Mutex
	requests map[string]int
	failed   map[string]int
	received atomic.Int64
	sent     atomic.Int64
}

func (c *counts) add(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.requests[name]++
}

func (c *counts) fail(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.failed[name]++
}

// take writes what was counted, and begins anew.
func (c *counts) take(out http.ResponseWriter) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	json.NewEncoder(out).Encode(map[string]any{
		"requests":  c.requests,
		"failed":    c.failed,
		"to_server": c.received.Swap(0),
		"to_client": c.sent.Swap(0),
	})
	c.requests, c.failed = map[string]int{}, map[string]int{}
}

// name says what a request does, and in which folder below BUCKET/PREFIX.
func name(request *http.Request) string {
	query := request.URL.Query()
	path := request.URL.Path
	method := request.Method
	switch {
	case query.Has("location"):
		return "GET location"
	case method == http.MethodGet && (query.Has("list-type") || query.Has("prefix") || query.Has("delimiter")):
		method, path = "LIST", path+"/"+query.Get("prefix")
	case query.Has("uploads") || query.Has("uploadId"):
		method += " part"
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(parts) < 3 {
		return method
	}
	return method + " " + parts[2]
}

// translate makes a request of Google's dialect one of S3, without credentials.
func translate(header http.Header) {
	header.Del("Authorization")
	if header.Get("X-Goog-If-Generation-Match") == "0" {
		header.Set("If-None-Match", "*")
	}
	header.Del("X-Goog-If-Generation-Match")
}

// counted is a connection of a client.
type counted struct {
	net.Conn
	counts *counts
}

func (c counted) Read(buffer []byte) (int, error) {
	count, err := c.Conn.Read(buffer)
	c.counts.received.Add(int64(count))
	return count, err
}

func (c counted) Write(buffer []byte) (int, error) {
	count, err := c.Conn.Write(buffer)
	c.counts.sent.Add(int64(count))
	return count, err
}

type listener struct {
	net.Listener
	counts *counts
}

func (l listener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	return counted{connection, l.counts}, err
}

// pass carries the bytes of connections to a server and back, whatever they are.
func pass(socket net.Listener, address string, counts *counts) error {
	for {
		client, err := socket.Accept()
		if err != nil {
			return err
		}
		counts.add("connection")
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", address)
			if err != nil {
				log.Print(err)
				return
			}
			defer server.Close()
			go func() {
				io.Copy(server, client)
				server.(*net.TCPConn).CloseWrite()
			}()
			io.Copy(client, server)
		}()
	}
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9100", "address for clients")
	control := flag.String("control", "127.0.0.1:9101", "address for /-/counts")
	to := flag.String("to", "http://127.0.0.1:9000", "URL of the server")
	latency := flag.Duration("latency", 0, "how long each request waits")
	google := flag.Bool("google", false, "translate from Google's dialect")
	flag.Parse()
	target, err := url.Parse(*to)
	if err != nil {
		log.Fatal(err)
	}
	counts := &counts{requests: map[string]int{}, failed: map[string]int{}}

	proxy := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			// Signatures cover the host that the client named.
			request.Out.Host = request.In.Host
			if *google {
				translate(request.Out.Header)
				// MinIO does not know a bucket by a name that is escaped more than need be.
				request.Out.URL.RawPath = ""
			}
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode >= 300 {
				counts.fail(answer.Status + " to " + name(answer.Request))
			}
			return nil
		},
	}
	serve := func(out http.ResponseWriter, request *http.Request) {
		counts.add(name(request))
		time.Sleep(*latency)
		proxy.ServeHTTP(out, request)
	}
	go func() {
		tell := func(out http.ResponseWriter, _ *http.Request) { counts.take(out) }
		log.Fatal(http.ListenAndServe(*control, http.HandlerFunc(tell)))
	}()
	socket, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if target.Scheme == "tcp" {
		log.Fatal(pass(listener{socket, counts}, target.Host, counts))
	}
	log.Fatal(http.Serve(listener{socket, counts}, http.HandlerFunc(serve)))
}
