// load URL: four clients that ask without a pause, over HTTP/1 and HTTP/2, each on a connection that it keeps, and each with a
// new connection for every request. For each line on its input it waits until all of them have had three more answers, and
// prints the names of the certificates that those with new connections have seen last. At the end of its input it prints all
// results.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type client struct {
	kind                           string
	answers, failures, connections int64
	last                           atomic.Value // the name of the certificate that was seen last
}

func (client *client) run(url string, http2, keeps bool, stop *int32) {
	config := &tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: func(chain [][]byte, _ [][]*x509.Certificate) error {
		certificate, err := x509.ParseCertificate(chain[0])
		if err == nil {
			client.last.Store(certificate.Subject.CommonName)
		}
		return err
	}}
	transport := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: config, DisableKeepAlives: !keeps && !http2}
	transport.Dial = func(network, address string) (net.Conn, error) {
		atomic.AddInt64(&client.connections, 1)
		return net.Dial(network, address)
	}
	wanted := "HTTP/2.0"
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		wanted = "HTTP/1.1"
	}
	asker := &http.Client{Transport: transport, Timeout: 60 * time.Second}
	for number := 0; atomic.LoadInt32(stop) == 0; number++ {
		path := fmt.Sprintf("/%d", number)
		// The client library does not repeat requests with content that are not idempotent, so this program sees every failure.
		response, err := asker.Post(url+path, "text/plain", struct{ io.Reader }{strings.NewReader("content")})
		var content []byte
		if err == nil {
			content, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil && (response.StatusCode != 200 || response.Proto != wanted || !strings.Contains(string(content), "PATH_INFO="+path+"\n")) {
			err = fmt.Errorf("status %d, %s, %q", response.StatusCode, response.Proto, content)
		}
		if err != nil {
			atomic.AddInt64(&client.failures, 1)
			fmt.Printf("%s %s: %v\n", client.kind, path, err)
		}
		atomic.AddInt64(&client.answers, 1)
		if !keeps {
			transport.CloseIdleConnections()
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func main() {
	clients := []*client{{kind: "http1 kept"}, {kind: "http1 new"}, {kind: "http2 kept"}, {kind: "http2 new"}}
	var stop int32
	var all sync.WaitGroup
	for number, client := range clients {
		number, client := number, client
		client.last.Store("-")
		all.Add(1)
		go func() {
			defer all.Done()
			client.run(os.Args[1], number >= 2, number%2 == 0, &stop)
		}()
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		for _, client := range clients {
			for goal := atomic.LoadInt64(&client.answers) + 3; atomic.LoadInt64(&client.answers) < goal; {
				time.Sleep(time.Millisecond)
			}
		}
		fmt.Println(clients[1].last.Load(), clients[3].last.Load())
	}
	atomic.StoreInt32(&stop, 1)
	all.Wait()
	for number, client := range clients {
		connections := "one connection"
		if client.connections > 1 {
			connections = "several connections"
		}
		first := client.last.Load()
		fmt.Printf("%s: %d failed, %s", client.kind, client.failures, connections)
		if number%2 == 0 {
			fmt.Printf(", %s", first)
		}
		fmt.Println()
		fmt.Fprintf(os.Stderr, "# %s: %d answers, %d connections\n", client.kind, client.answers, client.connections)
	}
}
