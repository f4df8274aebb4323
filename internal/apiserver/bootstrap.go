package apiserver

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	schedulinginternal "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"muster.dev/muster/internal/pki"
)

const (
	// bootstrapTimeout bounds the writing of a cluster's first objects; without
	// them the server does not become ready.
	bootstrapTimeout = 30 * time.Second
	// bootstrapRetry is how soon a failed write is tried again.
	bootstrapRetry = 100 * time.Millisecond
	// bootstrapWriters is how many write at once: the store syncs them together.
	bootstrapWriters = 8
)

// rolesProvider and prioritiesProvider serve their groups as the stock ones do,
// but write the first objects at once: the stock hooks wait a second before
// they start, which would double the time to ready.
type (
	rolesProvider      struct{ rbacrest.RESTStorageProvider }
	prioritiesProvider struct {
		schedulingrest.RESTStorageProvider
	}
)

func (rolesProvider) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	return rbacrest.PostStartHookName, writeFirst(firstRoles), nil
}

func (prioritiesProvider) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	return schedulingrest.PostStartHookName, writeFirst(firstPriorities), nil
}

// write puts one of a cluster's first objects in place. It can be repeated.
type write func(ctx context.Context) error

// writeFirst is a start hook that puts all of them in place, several at once,
// each tried again until it succeeds or the time is up.
func writeFirst(list func(kubernetes.Interface) []write) genericapiserver.PostStartHookFunc {
	return func(hook genericapiserver.PostStartHookContext) error {
		client, err := kubernetes.NewForConfig(hook.LoopbackClientConfig)
		if err != nil {
			return fmt.Errorf("making the client for the first objects: %w", err)
		}
		ctx, cancel := context.WithTimeout(hook.Context, bootstrapTimeout)
		defer cancel()
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(bootstrapWriters)
		for _, w := range list(client) {
			group.Go(func() error { return retry(ctx, w) })
		}
		return group.Wait()
	}
}

// retry repeats w until it succeeds; its last error says why it never did.
func retry(ctx context.Context, w write) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, bootstrapRetry, true, func(ctx context.Context) (bool, error) {
		last = w(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// firstRoles are Kubernetes' default roles and their bindings, without those of
// its own controllers' accounts, which nothing here logs in as.
func firstRoles(client kubernetes.Interface) []write {
	var out []write
	for _, role := range bootstrappolicy.ClusterRoles() {
		out = append(out, ensureRole(
			reconciliation.ClusterRoleRuleOwner{ClusterRole: &role},
			reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()}))
	}
	for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), nodeClientBinding()) {
		out = append(out, ensureBinding(
			reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &binding},
			reconciliation.ClusterRoleBindingClientAdapter{Client: client.RbacV1().ClusterRoleBindings()}))
	}
	for _, roles := range bootstrappolicy.NamespaceRoles() {
		for _, role := range roles {
			out = append(out, ensureRole(
				reconciliation.RoleRuleOwner{Role: &role},
				reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()}))
		}
	}
	for _, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range bindings {
			out = append(out, ensureBinding(
				reconciliation.RoleBindingAdapter{RoleBinding: &binding},
				reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()}))
		}
	}
	return out
}

// nodeClientBinding lets the API server call the nodes' agents: they ask it
// whether it may.
func nodeClientBinding() rbacv1.ClusterRoleBinding {
	return rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "system:kube-apiserver-kubelet-client",
			Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: pki.NodeClientName}},
	}
}

func ensureRole(role reconciliation.RuleOwner, client reconciliation.RuleOwnerModifier) write {
	return func(context.Context) error {
		o := reconciliation.ReconcileRoleOptions{Role: role, Client: client, Confirm: true}
		if _, err := o.Run(); err != nil {
			return fmt.Errorf("writing the role %s: %w", role.GetName(), err)
		}
		return nil
	}
}

func ensureBinding(binding reconciliation.RoleBinding, client reconciliation.RoleBindingModifier) write {
	return func(context.Context) error {
		o := reconciliation.ReconcileRoleBindingOptions{RoleBinding: binding, Client: client, Confirm: true}
		if _, err := o.Run(); err != nil {
			return fmt.Errorf("writing the role binding %s: %w", binding.GetName(), err)
		}
		return nil
	}
}

// firstPriorities are the priority classes that system Pods name.
func firstPriorities(client kubernetes.Interface) []write {
	var out []write
	for _, class := range schedulinginternal.SystemPriorityClasses() {
		out = append(out, func(ctx context.Context) error { return ensurePriority(ctx, client, class) })
	}
	return out
}

func ensurePriority(ctx context.Context, client kubernetes.Interface, class *schedulingv1.PriorityClass) error {
	_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing the priority class %s: %w", class.Name, err)
	}
	return nil
}
