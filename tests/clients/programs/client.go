// client URL CERTIFICATE MEBIBYTES: Go's own client, which chooses HTTP/2 by itself, uploads and downloads so much, sends
// trailers, has many requests open at once, and cancels some. It prints one line for each. Last it sends a request that takes
// long, which a server may answer while it stops.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync"
)

const mebibyte = 1 << 20

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func text(response *http.Response, err error) string {
	check(err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	check(err)
	return response.Proto + " " + strings.TrimSpace(string(content))
}

func main() {
	url := os.Args[1]
	pem, err := os.ReadFile(os.Args[2])
	check(err)
	mebibytes, err := strconv.Atoi(os.Args[3])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
	client := &http.Client{Transport: transport}

	content := make([]byte, mebibytes*mebibyte)
	_, err = rand.Read(content)
	check(err)
	told := text(client.Post(url+"/sum", "", bytes.NewReader(content)))
	fmt.Println("upload", told == fmt.Sprintf("HTTP/2.0 %x %d", sha256.Sum256(content), len(content)))

	response, err := client.Get(fmt.Sprintf("%s/numbered?%d", url, mebibytes))
	check(err)
	sum := sha256.New()
	size, err := io.Copy(sum, response.Body)
	check(err)
	fmt.Printf("download %x %d\n", sum.Sum(nil), size)

	request, err := http.NewRequest("POST", url+"/sum", struct{ io.Reader }{strings.NewReader("content")})
	check(err)
	request.Trailer = http.Header{"X-Sum": {"abc"}}
	fmt.Println("trailers", text(client.Do(request)))

	var all sync.WaitGroup
	var right sync.Map
	for number := 0; number < 300; number++ {
		number := number
		all.Add(1)
		go func() {
			defer all.Done()
			response, err := client.Get(fmt.Sprintf("%s/%d", url, number))
			if err == nil && strings.Contains(text(response, err), fmt.Sprintf("PATH_INFO=/%d\n", number)) {
				right.Store(number, true)
			}
		}()
	}
	all.Wait()
	count := 0
	right.Range(func(any, any) bool { count++; return true })
	fmt.Println("at once", count)

	for turn := 0; turn < 10; turn++ {
		ctx, cancel := context.WithCancel(context.Background())
		request, err := http.NewRequestWithContext(ctx, "GET", url+"/endless", nil)
		check(err)
		response, err := client.Do(request)
		check(err)
		_, err = io.CopyN(io.Discard, response.Body, 300_000)
		check(err)
		cancel()
		response.Body.Close()
	}
	fmt.Println("cancelled", strings.Fields(text(client.Get(url+"/behind")))[0])

	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		fmt.Println("asked")
	}})
	request, err = http.NewRequestWithContext(ctx, "GET", url+"/nap?2", nil)
	check(err)
	fmt.Println(strings.Fields(text(client.Do(request)))[0])
}
