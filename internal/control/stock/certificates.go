package stock

import (
	"context"
	"fmt"
	"time"

	informersv1 "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/certificates/approver"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"

	"muster.dev/muster/internal/pki"
)

// certificateLife is how long a certificate holds unless its request says less.
const certificateLife = 365 * 24 * time.Hour

// newSigner is the shape of the stock constructors of signers.
type newSigner func(context.Context, kubernetes.Interface, informersv1.CertificateSigningRequestInformer, string, string, time.Duration) (*signer.CSRSigningController, error)

// newCertificates approves what nodes may ask for, signs what was approved and
// clears away what is old. Endpoints and callers are signed by different
// authorities.
func newCertificates(ctx context.Context, w *world) ([]loop, error) {
	client, err := kubernetes.NewForConfig(w.config("certificate-controller"))
	if err != nil {
		return nil, err
	}
	requests := w.objects.Certificates().V1().CertificateSigningRequests()
	approving := approver.NewCSRApprovingController(ctx, client, requests)
	cleaning := cleaner.NewCSRCleanerController(client.CertificatesV1().CertificateSigningRequests(), requests)
	loops := []loop{
		{"certificate approval", func(ctx context.Context) { approving.Run(ctx, 1) }},
		{"certificate cleaning", func(ctx context.Context) { cleaning.Run(ctx, 1) }},
	}
	for _, s := range []struct {
		name      string
		make      newSigner
		authority *pki.Authority
	}{
		{"node serving", signer.NewKubeletServingCSRSigningController, w.PKI.Server},
		{"node client", signer.NewKubeletClientCSRSigningController, w.PKI.Client},
		{"API client", signer.NewKubeAPIServerClientCSRSigningController, w.PKI.Client},
	} {
		signing, err := s.make(ctx, client, requests, s.authority.CertFile, s.authority.KeyFile, certificateLife)
		if err != nil {
			return nil, fmt.Errorf("making the signer of %s certificates: %w", s.name, err)
		}
		loops = append(loops, loop{s.name + " certificate", func(ctx context.Context) { signing.Run(ctx, 1) }})
	}
	return loops, nil
}
