// collector: the receiver for OTLP of the OpenTelemetry Collector, which writes each request that it has accepted as a line of JSON.
//
//	collector ADDRESS [CERTIFICATE KEY]
//
// It serves OTLP/HTTP at ADDRESS, over TLS if it is given a certificate, says "ready" on standard error, and ends with its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 && len(os.Args) != 4 {
		log.Fatal("usage: collector ADDRESS [CERTIFICATE KEY]")
	}
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.GRPC = nil
	config.HTTP.Endpoint = os.Args[1]
	if len(os.Args) == 4 {
		config.HTTP.TLSSetting = &configtls.TLSServerSetting{
			TLSSetting: configtls.TLSSetting{CertFile: os.Args[2], KeyFile: os.Args[3]},
		}
	}
	marshaler := ptrace.JSONMarshaler{}
	write := func(_ context.Context, traces ptrace.Traces) error {
		line, err := marshaler.MarshalTraces(traces)
		if err != nil {
			return err
		}
		// One call for each line, so that simultaneous requests do not mix.
		_, err = os.Stdout.Write(append(line, '\n'))
		return err
	}
	sink, err := consumer.NewTraces(write)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	receiver, err := factory.CreateTracesReceiver(ctx, receivertest.NewNopCreateSettings(), config, sink)
	if err != nil {
		log.Fatal(err)
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := receiver.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
