package stock

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	accounts "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// newAccounts gives every namespace its default account and the root
// certificate, and fills the token Secrets that somebody asked for by hand.
func newAccounts(ctx context.Context, w *world) ([]loop, error) {
	root, err := w.PKI.Server.PEM()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(w.config("service-account-controller"))
	if err != nil {
		return nil, err
	}
	core := w.objects.Core().V1()
	defaults, err := accounts.NewServiceAccountsController(klog.FromContext(ctx),
		core.ServiceAccounts(), core.Namespaces(), client, accounts.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, fmt.Errorf("making the service-account controller: %w", err)
	}
	publisher, err := rootcacertpublisher.NewPublisher(core.ConfigMaps(), core.Namespaces(), client, root)
	if err != nil {
		return nil, fmt.Errorf("making the root certificate's publisher: %w", err)
	}
	tokens, err := newTokens(ctx, w, client, root)
	if err != nil {
		return nil, fmt.Errorf("making the token controller: %w", err)
	}
	return []loop{
		{"service account", func(ctx context.Context) { defaults.Run(ctx, 1) }},
		{"root certificate", func(ctx context.Context) { publisher.Run(ctx, 1) }},
		{"service-account token", func(ctx context.Context) { tokens.Run(ctx, workers) }},
	}, nil
}

// newTokens fills Secrets of the type kubernetes.io/service-account-token.
func newTokens(ctx context.Context, w *world, client kubernetes.Interface, root []byte) (*accounts.TokensController, error) {
	key, err := keyutil.PrivateKeyFromFile(w.PKI.ServiceAccountKeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the service-account key: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	core := w.objects.Core().V1()
	return accounts.NewTokensController(klog.FromContext(ctx), core.ServiceAccounts(), core.Secrets(), client,
		accounts.TokensControllerOptions{TokenGenerator: generator, RootCA: root})
}
