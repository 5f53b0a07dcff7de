"""ONNX's node tests of operators that anydml has which it refuses, by reason; each is checked to be refused for it."""

from __future__ import annotations

SKIPPED: dict[tuple[str, str], str] = {
    ("interpolates: only the nearest neighbour is moved", "moves data and computes nothing"): """
        resize_downsample_scales_cubic resize_downsample_scales_cubic_A_n0p5_exclude_outside
        resize_downsample_scales_cubic_align_corners resize_downsample_scales_cubic_antialias
        resize_downsample_scales_linear resize_downsample_scales_linear_align_corners
        resize_downsample_scales_linear_antialias resize_downsample_scales_linear_half_pixel_symmetric
        resize_downsample_sizes_cubic resize_downsample_sizes_cubic_antialias
        resize_downsample_sizes_linear_antialias resize_downsample_sizes_linear_pytorch_half_pixel
        resize_tf_crop_and_resize resize_tf_crop_and_resize_axes_2_3 resize_tf_crop_and_resize_axes_3_2
        resize_tf_crop_and_resize_extrapolation_value resize_upsample_scales_cubic
        resize_upsample_scales_cubic_A_n0p5_exclude_outside resize_upsample_scales_cubic_align_corners
        resize_upsample_scales_cubic_asymmetric resize_upsample_scales_linear
        resize_upsample_scales_linear_align_corners resize_upsample_scales_linear_half_pixel_symmetric
        resize_upsample_sizes_cubic
    """,
    ("reduces what is scattered", "moves data and computes nothing"): """
        scatter_elements_with_duplicate_indices scatter_elements_with_reduction_max
        scatter_elements_with_reduction_min scatter_elements_with_reduction_mul scatternd_add scatternd_max
        scatternd_max_with_element_indices scatternd_min scatternd_min_with_element_indices scatternd_multiply
    """,
    ("drops elements at random", "draws nothing"): """
        training_dropout training_dropout_default training_dropout_default_mask training_dropout_mask
    """,
    ("computes on data: only arithmetic on shapes is folded", "but anydml moves data"): """
        abs add add_bcast add_int16 add_int8 add_uint16 add_uint32 add_uint64 add_uint8 and4d and_bcast4v2d
        and_bcast4v3d and_bcast4v4d ceil clip_default_int8_max_expanded clip_default_int8_min_expanded
        clip_default_max_expanded clip_default_min_expanded clip_expanded div div_bcast div_int16
        div_int32_trunc div_int8 div_uint16 div_uint32 div_uint64 div_uint8 equal equal_bcast equal_int16
        equal_int8 equal_string equal_string_broadcast equal_uint16 equal_uint32 equal_uint64 equal_uint8 floor
        greater greater_bcast greater_equal greater_equal_bcast greater_equal_bcast_expanded
        greater_equal_expanded greater_equal_int16 greater_equal_int16_expanded greater_equal_int8
        greater_equal_int8_expanded greater_equal_uint16 greater_equal_uint16_expanded greater_equal_uint32
        greater_equal_uint32_expanded greater_equal_uint64 greater_equal_uint64_expanded greater_equal_uint8
        greater_equal_uint8_expanded greater_int16 greater_int8 greater_uint16 greater_uint32 greater_uint64
        greater_uint8 hardsigmoid_default_expanded_ver18 hardsigmoid_expanded_ver18 leakyrelu_default_expanded
        leakyrelu_expanded less less_bcast less_equal less_equal_bcast less_equal_bcast_expanded
        less_equal_expanded less_equal_int16 less_equal_int16_expanded less_equal_int8 less_equal_int8_expanded
        less_equal_uint16 less_equal_uint16_expanded less_equal_uint32 less_equal_uint32_expanded
        less_equal_uint64 less_equal_uint64_expanded less_equal_uint8 less_equal_uint8_expanded less_int16
        less_int8 less_uint16 less_uint32 less_uint64 less_uint8 max_float16 max_int16 max_int32 max_int8
        max_uint16 max_uint32 max_uint64 max_uint8 min_float16 min_int16 min_int32 min_int8 min_uint16
        min_uint32 min_uint64 min_uint8 mod_broadcast mod_float16_mixed_sign_fmod_0
        mod_float_edge_cases_fmod_0_float16 mod_mixed_sign_float16 mod_mixed_sign_int16 mod_mixed_sign_int32
        mod_mixed_sign_int8 mod_uint16 mod_uint32 mod_uint64 mod_uint8 mul mul_bcast mul_int16 mul_int8
        mul_uint16 mul_uint32 mul_uint64 mul_uint8 neg nllloss_NC_expanded nllloss_NCd1d2_expanded
        nllloss_NCd1d2_with_weight_expanded nllloss_NCd1d2d3_none_no_weight_negative_ii_expanded
        nllloss_NCd1d2d3d4d5_none_no_weight_expanded not_4d operator_max operator_min or4d or_bcast4v2d
        or_bcast4v3d or_bcast4v4d prelu_broadcast_expanded prelu_example_expanded
        reduce_prod_default_axes_keepdims_example reduce_prod_default_axes_keepdims_random
        reduce_prod_do_not_keepdims_example reduce_prod_do_not_keepdims_random reduce_prod_empty_set
        reduce_prod_keepdims_example reduce_prod_keepdims_random reduce_prod_negative_axes_keepdims_example
        reduce_prod_negative_axes_keepdims_random relu_expanded_ver18 rotary_embedding_3d_input_expanded
        rotary_embedding_expanded rotary_embedding_interleaved_expanded
        rotary_embedding_no_position_ids_expanded rotary_embedding_no_position_ids_interleaved_expanded
        rotary_embedding_no_position_ids_rotary_dim_expanded
        rotary_embedding_with_interleaved_rotary_dim_expanded rotary_embedding_with_rotary_dim_expanded
        softsign_expanded_ver18 sub sub_bcast sub_int16 sub_int8 sub_uint16 sub_uint32 sub_uint64 sub_uint8
        thresholdedrelu_default_expanded_ver18 thresholdedrelu_expanded_ver18
    """,
    ("an arithmetic operator of before opset 7, where broadcasting was an attribute", "does not have the version"): """
        Softsign operator_add_broadcast operator_add_size1_broadcast operator_add_size1_right_broadcast
        operator_add_size1_singleton_broadcast operator_addconstant operator_non_float_params
    """,
}
"""Names without ``test_``, by why they are refused and what the error says."""
