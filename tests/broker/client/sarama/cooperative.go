//go:build !eager

package main

import "github.com/IBM/sarama"

func init() { strategies["cooperative-sticky"] = sarama.NewBalanceStrategyCooperativeSticky }
