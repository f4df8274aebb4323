package inprocess

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// client calls a handler in process.
func client(handler http.HandlerFunc) *http.Client {
	t := New()
	t.Serve(handler)
	return &http.Client{Transport: t}
}

func TestAnswerIsWholeAndHeadersCarryOver(t *testing.T) {
	large := strings.Repeat("x", 3*holdBack)
	c := client(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil || r.ProtoMajor != 2 || r.Header.Get("Question") != "why" || r.RequestURI != "/a?b=c" {
			t.Errorf("request arrived as %v %v %q, body error %v", r.ProtoMajor, r.Header, r.RequestURI, err)
		}
		w.Header().Set("Answer", string(sent))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, large)
		w.Header().Set("Late", "not sent")
	})
	req, err := http.NewRequest(http.MethodPost, "https://in.process/a?b=c", strings.NewReader("because"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Question", "why")
	answer, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusTeapot || answer.Header.Get("Answer") != "because" || answer.Header.Get("Late") != "" {
		t.Errorf("answer is %d with %v", answer.StatusCode, answer.Header)
	}
	if string(body) != large {
		t.Errorf("body has %d bytes, want %d", len(body), len(large))
	}
}

func TestFlushedPiecesArriveWhileTheHandlerRuns(t *testing.T) {
	next := make(chan string)
	c := client(func(w http.ResponseWriter, r *http.Request) {
		//lint:ignore SA1019 the API server's filters still look for it
		if _, ok := w.(http.CloseNotifier); !ok {
			t.Error("the writer does not look like an HTTP/2 server's")
		}
		for line := range next {
			fmt.Fprintln(w, line)
			w.(http.Flusher).Flush()
		}
	})
	go func() { next <- "first" }()
	answer, err := c.Get("https://in.process/watch")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answer.Body)
	for _, want := range []string{"first", "second", "third"} {
		if want != "first" {
			next <- want
		}
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("read %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	close(next)
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the handler's end: %q, %v", lines.Text(), lines.Err())
	}
}

func TestClosingTheBodyEndsTheHandler(t *testing.T) {
	ended := make(chan error, 1)
	c := client(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		ended <- r.Context().Err()
	})
	answer, err := c.Get("https://in.process/watch")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if err := <-ended; err == nil {
		t.Error("the handler's context has no error")
	}
	if _, err := answer.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("reading on gives %v", err)
	}
}

func TestTheCallersEndEndsBothSides(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		began, ended := make(chan struct{}), make(chan struct{})
		c := client(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			close(began)
			if flushed {
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://in.process/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if flushed {
			answer, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if _, err := io.ReadAll(answer.Body); !errors.Is(err, context.Canceled) {
				t.Errorf("reading gives %v", err)
			}
		} else {
			go func() {
				<-began // a caller that ends before it asks never reaches the handler
				cancel()
			}()
			if _, err := c.Do(req); !errors.Is(err, context.Canceled) {
				t.Errorf("the request gives %v", err)
			}
		}
		<-ended
	}
}

func TestAHandlerThatPanicsIsAnErrorNotACrash(t *testing.T) {
	c := client(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	if _, err := c.Get("https://in.process/early"); !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("an early panic gives %v", err)
	}
	answer, err := c.Get("https://in.process/late")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if string(body) != "half" || !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("a late panic gives %q and %v", body, err)
	}
}

func TestASlowReaderHoldsTheHandlerBack(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	const chunks = 64 // 4 MiB, four times what may wait
	written := make(chan int, chunks)
	c := client(func(w http.ResponseWriter, r *http.Request) {
		defer close(written)
		for i := range chunks {
			if _, err := w.Write(chunk); err != nil {
				return
			}
			written <- i
		}
	})
	answer, err := c.Get("https://in.process/list")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	// Everything that fits without reading has been written once the handler
	// waits: reading exactly that much must let it go on.
	waiting := holdBack/len(chunk) + 1
	for range waiting {
		<-written
	}
	select {
	case i := <-written:
		t.Fatalf("chunk %d was written with nobody reading", i)
	default:
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || len(body) != chunks*len(chunk) {
		t.Errorf("read %d bytes, %v", len(body), err)
	}
}

func TestValuesOfTheCallersContextStayOutside(t *testing.T) {
	type key struct{}
	c := client(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(key{}) != nil {
			w.WriteHeader(http.StatusConflict)
		}
	})
	ctx := context.WithValue(context.Background(), key{}, "mine")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://in.process/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Error("the handler sees the caller's values")
	}
}

func TestRequestsWaitForTheHandler(t *testing.T) {
	transport := New()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://in.process/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(req); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gives up gets %v", err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := (&http.Client{Transport: transport}).Get("https://in.process/")
		answered <- err
	}()
	transport.Serve(http.NotFoundHandler())
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
